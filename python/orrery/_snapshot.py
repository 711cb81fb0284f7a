"""Runs that continue from another run's log."""

from __future__ import annotations

import os
from typing import Any, Mapping, Optional, Union

from orrery import _core
from orrery._scenario import Scenario, _override_list


class Snapshot(Scenario):
    """Recorded run, simulated or live, up to an instant, from which other runs continue.

    `orrery.simulate`, `orrery.sweep` and `orrery.futures` take it as they take any scenario. They
    show its observations to its policies, then continue in the simulator: with the job at its step,
    where it stands, as it is set, and without the ranks that it has lost. Faults, noise and
    policies may be changed; policies of the log go on with their state.

    Parameters
    ----------
    log : path
        The file of ``record`` or ``--record``; its end may be missing.
    at : float, optional
        The instant of the run's clock, seconds; by default the log's end.
    overrides, **changes
        Values of the log's scenario to change, as for `orrery.load`.

    Attributes
    ----------
    at : float
        The instant, at most the log's end.

    Raises
    ------
    InputError
        If it is no log of a scenario.

    Examples
    --------
    >>> now = orrery.Snapshot("live.log")
    >>> orrery.futures(now, horizon=3600, choices={"as it is": None, "steered": "recover"})
    """

    def __init__(
        self,
        log: Union[str, "os.PathLike[str]"],
        at: Optional[float] = None,
        overrides: Optional[Mapping[str, Any]] = None,
        **changes: Any,
    ) -> None:
        if at is not None and not 0 <= at < 9e9:
            raise ValueError(f"at is an instant of the run's clock in seconds, not {at!r}")
        path = os.fspath(log)
        text, written = _core.log_scenario(path), _override_list(overrides, changes)
        super().__init__(_core.Scenario.from_text(text, path, written), text, path, written)
        end = _core.log_end(path)
        self.at = end if at is None else min(float(at), end)
        self._from = (path, None if at is None else self.at)

    def _changed(self, written: "list[str]") -> Scenario:
        changed = Snapshot.__new__(Snapshot)
        changed.__dict__.update(super()._changed(written).__dict__)
        changed.at = self.at
        return changed
