"""Unchanged PyTorch programs: the part of Orrery inside the user's process.

`orrery rehearse` and `orrery run` put the folder ``attach`` on PYTHONPATH. Its ``sitecustomize``
loads this package under the name ``orrery_programs`` into the user's own Python, which may have
neither pandas nor the compiled module of Orrery. The package therefore imports nothing of
``orrery``, and ``import orrery`` imports nothing of this package. A socket leads to the command
line, which prices the operators of a rehearsal (cli/shared/price_server.hpp) or watches the ranks
of a run (live/programs).
"""
