"""Stand-in for grouped_gemm where a program imports the package and it is not installed."""

from . import ops

__all__ = ["ops"]
