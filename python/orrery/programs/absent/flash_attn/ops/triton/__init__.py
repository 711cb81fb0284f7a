"""Stand-ins, see the package above."""
