"""Draws a timeline of `orrery simulate --timeline`: a row for each track, a bar for each slice.

    build/venv/bin/python python/plots/timeline.py [FILE.pftrace] [-o docs/timeline.svg]

Without FILE, a step of examples/llama3-70b-512-h100.yaml is simulated. Prints the number of slices.
"""

import argparse
import re
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

import orrery  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLORS = {"forward": "#56b4e9", "backward": "#e69f00", "communication": "#999999",
          "optimizer": "#009e73"}  # fmt: skip
# Numbers of the fields of Perfetto's messages (traces/perfetto.proto).
PACKET, TIME, EVENT, TRACK = 1, 8, 11, 60
EVENT_TYPE, EVENT_TRACK, EVENT_NAME, BEGIN, END = 9, 11, 23, 1, 2
TRACK_ID, TRACK_NAME, TRACK_PROCESS, TRACK_PARENT, PROCESS_NAME = 1, 2, 3, 5, 6


def fields_of(data):
    """Yields (number, value) of the fields of a protobuf message: integers and bytes."""

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    at = 0
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 2:
            size = varint()
            yield key >> 3, data[at : at + size]
            at += size
        else:
            raise SystemExit("error: expected a Perfetto trace of orrery, found field type "
                             f"{key & 7}")  # fmt: skip


def read_slices(path):
    """Returns {(process, track): [(name, begin in s, end in s)]} of a trace, in its order."""
    processes, tracks, opened, slices = {}, {}, {}, {}
    for number, packet in fields_of(Path(path).read_bytes()):
        packet = dict(fields_of(packet)) if number == PACKET else {}
        if TRACK in packet:
            track = dict(fields_of(packet[TRACK]))
            if TRACK_PROCESS in track:
                process = dict(fields_of(track[TRACK_PROCESS]))
                processes[track[TRACK_ID]] = process[PROCESS_NAME].decode()
            else:
                name = track[TRACK_NAME].decode()
                tracks[track[TRACK_ID]] = (processes[track[TRACK_PARENT]], name)
        if EVENT not in packet:
            continue
        event = dict(fields_of(packet[EVENT]))
        if event[EVENT_TYPE] == BEGIN:
            opened[event[EVENT_TRACK]] = (event[EVENT_NAME].decode(), packet.get(TIME, 0))
        elif event[EVENT_TYPE] == END:
            name, begin = opened.pop(event[EVENT_TRACK])
            row = slices.setdefault(tracks[event[EVENT_TRACK]], [])
            row.append((name, begin / 1e9, packet[TIME] / 1e9))
    return slices


def kind_of(track, name):
    """Returns the key of COLORS of a slice."""
    if track == "communication":
        return track
    word = re.match(r"[a-z]*", name).group()
    return word if word in COLORS else "optimizer"


def draw(slices, out):
    """Draws the slices into an SVG file."""
    figure, axes = plt.subplots(figsize=(7.2, 0.7 + 0.28 * len(slices)), layout="constrained")
    shown = {}
    for row, ((_, track), each) in enumerate(slices.items()):
        for kind in COLORS:
            bars = [(begin, end - begin) for name, begin, end in each
                    if kind_of(track, name) == kind]  # fmt: skip
            if bars:
                shown[kind] = axes.broken_barh(
                    bars, (row - 0.4, 0.8), facecolor=COLORS[kind], edgecolor="white", lw=0.3
                )
    axes.set_yticks(range(len(slices)), [f"{process}: {track}" for process, track in slices],
                    fontsize=7)  # fmt: skip
    axes.invert_yaxis()
    axes.set(xlabel="time (s)", xlim=(0, None))
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(shown.values(), shown.keys(), loc="outside upper center", ncols=len(shown),
                  frameon=False, fontsize=8)  # fmt: skip
    # Neither date nor random ids: the same trace gives the same picture, byte for byte.
    plt.rcParams["svg.hashsalt"] = "orrery"
    figure.savefig(out, metadata={"Date": None})


def main():
    """Parses the command line, simulates if there is no file, draws, prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, help="trace of orrery simulate --timeline")
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "docs" / "timeline.svg")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = options.file or Path(folder) / "step.pftrace"
        if options.file is None:
            example = orrery.example("llama3-70b-512-h100")
            orrery.simulate(example, run__steps=1, timeline=file)
        slices = read_slices(file)
    draw(slices, options.out)
    print(f"{sum(map(len, slices.values()))} slices on {len(slices)} tracks; wrote {options.out}")


if __name__ == "__main__":
    main()
