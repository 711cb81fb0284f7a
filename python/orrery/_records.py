"""Class of each message of traces/trace.proto; called by the compiled part."""

from __future__ import annotations

from typing import Dict

from orrery import _spec, actions, events, settings, values

CLASSES: Dict[str, type] = {
    vars(each)["_record"]: each
    for module in (values, settings, _spec, actions, events)
    for each in vars(module).values()
    if isinstance(each, type) and "_record" in vars(each)
}
