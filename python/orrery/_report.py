"""Results of a run."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional

import numpy as np
import numpy.typing as npt
import pandas as pd

from orrery import _core
from orrery._html import Row, count, duration, energy, money, percent, size, table

#: Names of the shares of the GPU time, of the uses of lost time (keys of ``gpu_time``), and of the
#: worlds. The clocks of real ranks end with their compute: all else is one measured rest.
_SHARES = {"exposed_communication": "communication", "bubble": "pipeline bubble"}
_MEASURED = {
    "compute": "compute",
    "waiting": "waiting",
    "exposed_communication": "other (communication, pauses, lost steps)",
}
_LOST = {
    "checkpoint": "checkpoints",
    "lost_work": "lost work",
    "detection": "detection",
    "recovery": "recovery",
    "idle": "idle",
}
_WORLDS = {"sim": "simulated", "live": "live, measured"}


class Report:
    """The result of one run, simulated or live.

    Every key of ``orrery simulate --json`` is an attribute: times in seconds, sizes in bytes,
    energy in joules, cost in US dollars; ``None`` where a value is not known. The meaning of each
    key stands in ``traces/report.proto``.

    Examples
    --------
    >>> report = orrery.simulate("examples/straggler-4-ranks.yaml")
    >>> report.step_time_s, report.tokens_per_s
    """

    def __init__(self, raw: _core.RawReport) -> None:
        self._raw = raw
        self._values: Dict[str, Any] = json.loads(raw.json())

    def __getattr__(self, name: str) -> Any:
        # Only called for names that are no ordinary attribute.
        values = self.__dict__.get("_values", {})
        if name == "notes" and values:
            return values.get(name)  # only in reports of policies that annotate
        if name not in values:
            raise AttributeError(f"a report has no {name!r}; it has: {', '.join(values)}")
        return values[name]

    def __dir__(self) -> List[str]:
        return sorted({*super().__dir__(), *self._values})

    @property
    def step_times(self) -> npt.NDArray[np.float64]:
        """Seconds of each step, shape (n,), read-only, for the first 10,000 steps run."""
        return np.frombuffer(self._raw.step_times(), dtype=np.float64)

    @property
    def losses(self) -> npt.NDArray[np.float64]:
        """Mean training loss of each step in nats, shape (n,), read-only; empty if simulated."""
        return np.frombuffer(self._raw.losses(), dtype=np.float64)

    def to_dict(self) -> Dict[str, Any]:
        """All keys and values, nested as in the JSON object.

        Returns
        -------
        dict
            A copy.
        """
        out: Dict[str, Any] = json.loads(json.dumps(self._values))
        return out

    def to_pandas(self) -> pd.Series:
        """The plain values as one column.

        Returns
        -------
        pandas.Series
            Indexed by key; lists and nested objects are left out.
        """
        return pd.Series(scalars(self), name=self._values.get("scenario") or "run", dtype=object)

    def summary(self) -> str:
        """The twelve lines that the command line prints.

        Returns
        -------
        str
            Every number with its unit.
        """
        return self._raw.summary().rstrip()

    def __repr__(self) -> str:
        step = self._values.get("step_time_s")
        shown = "unknown" if step is None else f"{step:.6g} s"
        return (
            f"<orrery.Report {self._values.get('scenario')!r} ({self._values.get('mode')}): "
            f"{self._values.get('steps_completed')} steps, median step {shown}>"
        )

    def _repr_html_(self) -> str:
        values = self._values
        ideal, step = values.get("ideal_step_time_s"), values.get("step_time_s")
        mfu = values.get("mfu")
        failures = values.get("failures") or []
        rows: List[Row] = [
            ("ranks", count(values.get("ranks"))),
            ("steps completed", count(values.get("steps_completed"))),
            ("elapsed", duration(values.get("elapsed_s"))),
            ("median step time", duration(step)),
            ("step time over the ideal", f"{step / ideal:.3g} x" if step and ideal else None),
            ("throughput", _with_unit(count(values.get("tokens_per_s")), "tokens/s")),
            ("model FLOPs utilization", "below 0.1%" if mfu and mfu < 0.0005 else percent(mfu)),
            ("GPU time busy", percent(values.get("gpu_utilization"))),
            ("goodput", percent(values.get("goodput"))),
            *_shares(values),
            ("memory per GPU", size(values.get("memory_per_gpu_bytes"))),
            ("energy", energy(values.get("energy_j"))),
            ("cost", money(values.get("cost_usd"))),
            ("final loss", _with_unit(_short(values.get("final_loss")), "nats a token")),
            ("decisions", count(values.get("decisions"))),
            ("failures", count(len({each["time_s"] for each in failures})) if failures else None),
            ("ranks lost", count(len(failures)) if failures else None),
        ]
        world = _WORLDS.get(str(values.get("mode")), "run")
        title = f"{values.get('scenario')} ({world})"
        return table(title, rows, values.get("warnings") or [], _sparkline(self.step_times))


def scalars(report: Report, host: bool = False) -> Dict[str, Any]:
    """The keys of a report that hold one plain value, in order.

    Parameters
    ----------
    report : Report
        Where they come from.
    host : bool
        Whether to add ``host_wall_s`` and its like, which differ between equal runs.

    Returns
    -------
    dict
        Key to number, string or ``None``.
    """
    values = report.to_dict()
    out = {key: value for key, value in values.items() if not isinstance(value, (list, dict))}
    if host:
        out.update({f"host_{key}": value for key, value in (values.get("host") or {}).items()})
    return out


def _shares(values: Dict[str, Any]) -> List[Row]:
    # The rows of the GPU time, with the words of the summary.
    shares, time = values.get("breakdown") or {}, values.get("gpu_time") or {}
    if values.get("mode") == "live":
        names = {key: name for key, name in _MEASURED.items() if key in shares}
    else:
        names = {k: _SHARES.get(k, k) for k in shares if k != "input" or shares[k] > 0}
    rows: List[Row] = [(f"share: {name}", percent(shares[key])) for key, name in names.items()]
    if "lost" in names and shares["lost"] >= 0.0005 and time.get("total"):
        for key, name in _LOST.items():
            if time.get(key):
                rows.append((f"share: lost, {name}", percent(time[key] / time["total"])))
    return rows


def _with_unit(number: Optional[str], unit: str) -> Optional[str]:
    return None if number is None else f"{number} {unit}"


def _short(value: Optional[float]) -> Optional[str]:
    return None if value is None else f"{value:.4g}"


def _sparkline(values: npt.NDArray[np.float64], width: int = 320, height: int = 48) -> str:
    if len(values) < 2 or float(values.max()) == float(values.min()):
        return ""  # a level line says less than the median
    # At most one point a pixel, each the maximum of its share: peaks stay visible.
    shares = np.array_split(values, min(width, len(values)))
    heights = np.array([share.max() for share in shares])
    top = float(heights.max()) or 1.0
    x = np.linspace(0, width, len(heights))
    y = height - 2 - (height - 4) * heights / top
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y))
    label = f"step time over {len(values)} steps, 0 to {top:.4g} s"
    return (
        f"<svg width='{width}' height='{height}' role='img' aria-label='{label}'>"
        f"<title>{label}</title>"
        f"<line x1='0' y1='{height - 1}' x2='{width}' y2='{height - 1}' stroke='#999'/>"
        f"<polyline points='{points}' fill='none' stroke='#2a6fb0' stroke-width='1.5'/></svg>"
        f"<div><small>{label}</small></div>"
    )
