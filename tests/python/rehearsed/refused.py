"""Programs that are to be refused, by name, and the unknown values that they begin with."""

import torch

N = 1 << 15


def unknown():
    """A number on the device that no kernel computed."""
    return torch.randn(N, device="cuda").mean()


def mask():
    return torch.randn(N, device="cuda") > 0


def whole():
    return torch.randn(N, device="cuda").sum().long()


def program(function):
    PROGRAMS[function.__name__] = function
    return function


PROGRAMS = {}
