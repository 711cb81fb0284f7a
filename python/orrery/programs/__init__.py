"""Rehearsal of unchanged PyTorch programs: the part of Orrery inside the user's process.

`orrery rehearse` puts the folder ``attach`` on PYTHONPATH. Its ``sitecustomize`` loads this package
under the name ``orrery_programs`` into the user's own Python, which may have neither pandas nor the
compiled module of Orrery. The package therefore imports nothing of ``orrery``, and ``import
orrery`` imports nothing of this package. Prices come over a socket from the command line
(cli/price_server.hpp).
"""
