"""Text of Debian's licences for the programs: bytes, in pieces of one length and in one order.

Every machine with Debian's base-files has the text. The model of a program predicts the next byte.
PIECES=N uses the first N pieces only. LINES=STEPS between two lines of a rank, else 10.
"""

import os
import pathlib
import zlib

import torch
from torch import nn

#: Bytes that a model sees before the byte that it predicts.
CONTEXT = 8
#: Values of a byte.
BYTES = 256
#: Steps between two lines of a rank.
LINES = int(os.environ.get("LINES", "10"))


def licences():
    """Return all bytes of the licences, without the links to some of them, in one tensor."""
    files = sorted(pathlib.Path("/usr/share/common-licenses").iterdir())
    whole = b"".join(each.read_bytes() for each in files if not each.is_symlink())
    return torch.frombuffer(bytearray(whole), dtype=torch.uint8).long()


def pieces(length):
    """Return the text in pieces of `length` bytes, one a row; the rest of the end is left out."""
    data = licences()
    rows = data[: len(data) // length * length].view(-1, length)
    return rows[: int(os.environ.get("PIECES", len(rows)))]


def examples():
    """Return contexts, one a row, and the byte behind each."""
    rows = pieces(CONTEXT + 1)
    return rows[:, :CONTEXT], rows[:, CONTEXT]


def mark_of(rows):
    """Return a short text that tells a batch from others."""
    return f"{zlib.crc32(rows.contiguous().numpy().tobytes()):08x}"


def layers(width, *more):
    """Return a model that predicts the byte behind a context: a table of bytes and two layers.

    Parameters
    ----------
    width : int
        Values between the two layers.
    more : modules
        Modules behind the first layer, before its activation.
    """
    return nn.Sequential(
        nn.Embedding(BYTES, CONTEXT), nn.Flatten(), nn.Linear(CONTEXT * CONTEXT, width), *more,
        nn.Tanh(), nn.Linear(width, BYTES),
    )  # fmt: skip
