"""Predictions and layouts, priced in this process: no run is started."""

from __future__ import annotations

import json
import math
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import pandas as pd

from orrery import _core
from orrery._scenario import ScenarioLike, _override_list, _scalar, load

#: A run, by its columns; or the name of a model of the catalogue.
RunLike = Union[str, Mapping[str, Any]]
#: A name of the catalogue, or the path of a file.
NameOrFile = Union[str, "os.PathLike[str]"]


def predict(runs: "Union[RunLike, Sequence[RunLike], pd.DataFrame]") -> pd.DataFrame:
    """Predict the step times of training runs, with intervals and memory.

    Parameters
    ----------
    runs : DataFrame, mapping, str, or sequence of mappings and str
        One run a row, by the columns of docs/predict.md; a name of a model of the catalogue
        stands for ``{"model": name}``. A missing value, ``None`` or NaN has a default, which
        ``reason`` names.

    Returns
    -------
    pandas.DataFrame
        With the index of `runs`: ``id``; ``iter_time_s``, its 80% interval ``p10_s``, ``p90_s``
        and its 95% interval ``p2_5_s``, ``p97_5_s`` (s); ``memory_bytes`` of the tensors
        on the fullest GPU; ``reserved_bytes`` that its process holds, with the 80% interval
        ``reserved_p10``, ``reserved_p90``; ``status``: ``"ok"``, ``"out-of-memory"`` or
        ``"unsupported"``; ``reason``; ``state`` of the combination of stack and GPU:
        ``"measured"``, ``"between"`` measured ones or ``"transferred"``. No row stops the others.

    Raises
    ------
    TypeError
        If `runs` is something else.
    """
    if isinstance(runs, (str, Mapping)):
        runs = [runs]
    if isinstance(runs, pd.DataFrame):
        index, rows = runs.index, runs.to_dict("records")
    else:
        rows = [{"model": run} if isinstance(run, str) else run for run in runs]
        index = pd.RangeIndex(len(rows))
    for row in rows:
        if not isinstance(row, Mapping):
            kind = type(row).__name__
            raise TypeError(f"a run is a mapping or the name of a model, not a {kind}")
    found = _core.predict([_cells(row) for row in rows])
    columns = ["id", *_NUMBERS, "status", "reason", "state", *_RESERVED]
    table = pd.DataFrame(found, columns=columns, index=index)
    return table.astype({name: float for name in (*_NUMBERS, *_RESERVED)})


_NUMBERS = ["iter_time_s", "p10_s", "p90_s", "p2_5_s", "p97_5_s", "memory_bytes"]
_RESERVED = ["reserved_bytes", "reserved_p10", "reserved_p90"]


def _cells(row: Mapping[Any, Any]) -> List[Tuple[str, str]]:
    cells = []
    for key, value in row.items():
        if value is None or (isinstance(value, float) and math.isnan(value)) or value is pd.NA:
            continue
        text = str(int(value)) if isinstance(value, bool) else _scalar(value)
        cells.append((str(key), text))
    return cells


def layouts(
    scenario: Optional[ScenarioLike] = None,
    *,
    model: Optional[NameOrFile] = None,
    cluster: Optional[NameOrFile] = None,
    gpus: Optional[int] = None,
    sequence_length: Optional[int] = None,
    global_batch: Optional[int] = None,
    tokens_per_batch: Optional[float] = None,
    stack: Optional[str] = None,
    precision: Optional[str] = None,
    top: int = 0,
    overrides: Optional[Mapping[str, Any]] = None,
    **changes: Any,
) -> pd.DataFrame:
    """Price and rank all layouts of a job on all GPUs of its cluster.

    Parameters
    ----------
    scenario : path, str, mapping or Scenario, optional
        As for `orrery.load`. Without it `model`, `cluster` and `gpus` describe the job.
    model, cluster : path or str, optional
        Presets (`orrery.names`), or files: ``config.json`` and others; a cluster (YAML).
    gpus : int, optional
        GPUs of the job: whole nodes of the cluster.
    sequence_length, global_batch : int, optional
        Tokens of a sequence (default 8192), sequences of a step.
    tokens_per_batch : float, optional
        Instead of `global_batch`: tokens of a step (default 4,194,304).
    stack, precision : str, optional
        Software stack (default ``"nemo"``) and precision (``"bf16"``).
    top : int
        How many rows to return, the fastest first; 0: all.
    overrides, **changes
        Values of the scenario to change, as for `orrery.load`.

    Returns
    -------
    pandas.DataFrame
        One row for each layout, the fastest first, then those that do not fit and those that
        cannot be; columns as on docs/layouts.md (s, bytes). ``attrs["why"]`` says why the first
        one is ahead, ``attrs["assumed"]`` the assumptions.

    Raises
    ------
    InputError
        If the scenario is wrong, or says too little.
    TypeError
        If both a scenario and parts of one are given.
    """
    texts = {"model": model, "cluster": cluster, "stack": stack, "precision": precision}
    if scenario is not None:
        _refuse_both(gpus=gpus, sequence_length=sequence_length, global_batch=global_batch,
                     tokens_per_batch=tokens_per_batch, **texts)  # fmt: skip
        text = _core.layouts(load(scenario, overrides, **changes)._core, top)
    else:
        text = _core.layouts_asked(
            [(key, os.fspath(value)) for key, value in texts.items() if value is not None],
            gpus or 0,
            sequence_length or 0,
            global_batch or 0,
            tokens_per_batch or 0,
            _override_list(overrides, changes),
            top,
        )
    found: Dict[str, Any] = json.loads(text)
    table = pd.DataFrame(found["layouts"])
    table.attrs["why"] = found["why"]
    table.attrs["assumed"] = found["assumed"]
    return table


def _refuse_both(**said: Any) -> None:
    both = [name for name, value in said.items() if value is not None]
    if both:
        raise TypeError(
            f"a scenario says {', '.join(both)} itself: change it by overrides, such as "
            'layouts(scenario, overrides={"cluster.nodes": 64})'
        )


def names(kind: Optional[str] = None) -> pd.DataFrame:
    """Return the names for scenarios and calls, each with a line about it.

    Parameters
    ----------
    kind : {"models", "clusters", "gpus", "stacks", "policies", "prices"}, optional
        All of them by default.

    Returns
    -------
    pandas.DataFrame
        Columns ``kind``, ``name`` and ``about``.

    Raises
    ------
    UsageError
        If there is no such kind.
    """
    kinds = _core.kinds_of_names() if kind is None else [kind]
    rows = [(each, name, about) for each in kinds for name, about in _core.names(each)]
    return pd.DataFrame(rows, columns=["kind", "name", "about"])
