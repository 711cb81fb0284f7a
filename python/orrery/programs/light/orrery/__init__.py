"""Package orrery in a Python that lacks it: only orrery.torch, for programs of `orrery run`."""

import os

__path__.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__)))))
