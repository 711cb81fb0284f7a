"""Controller of ``orrery cluster kubernetes``: reads a cluster and carries out placements.

The command starts the process of :mod:`orrery.kube.adapter` and decides; the adapter alone talks to
the API server, through the official client (``pip install 'orrery[kubernetes]'``).
"""
