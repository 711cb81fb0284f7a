"""A row of a plan with sliders, for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict

from orrery._errors import Error
from orrery._extras import require
from orrery._played import SEEDS, PlayedRow

if TYPE_CHECKING:
    from orrery._plan import Plan


def changes_of(values: Dict[str, float], row: Dict[str, Any]) -> Dict[str, Any]:
    """Arguments of `orrery.Plan.play` for the positions of sliders.

    Parameters
    ----------
    values : dict
        ``spares``, ``checkpoints`` (factor on the interval of the row), ``failures`` (factor),
        ``repair_h``, ``restart_min`` and ``step`` (factor).
    row : dict
        The row, as in the JSON of ``orrery plan``.

    Returns
    -------
    dict
        Keyword arguments.
    """
    every = row["policies"]["checkpoint_every_steps"]
    return {
        "spares": int(values["spares"]),
        "checkpoint_every": max(1, round(every * values["checkpoints"])),
        "step_factor": values["step"],
        "overrides": {
            "failures.scale": values["failures"],
            "failures.repair": f"{values['repair_h']} h",
            "survival.restart": f"{values['restart_min']} min",
        },
    }


def sliders(plan: "Plan", row: int) -> Any:
    """Sliders of a row; see `orrery.Plan.sliders`.

    Parameters
    ----------
    plan : Plan
        The plan.
    row : int
        As in the column ``rank``.

    Returns
    -------
    ipywidgets.VBox
        Sliders and the row.
    """
    widgets = require("ipywidgets", "Plan.sliders")
    found = plan.row(row)
    values = plan.scenario(row).to_dict(units=False)
    repair_h = values["failures"]["repair"] / 3.6e12
    restart_min = values["survival"]["restart"] / 6e10
    made = {
        "spares": widgets.IntSlider(found["policies"]["spare_nodes"], 0, 16,
                                    description="spare nodes"),
        "checkpoints": widgets.FloatLogSlider(1, min=-1, max=1, description="checkpoints x"),
        "failures": widgets.FloatLogSlider(values["failures"]["scale"], min=-1, max=1,
                                           description="failures x"),
        "repair_h": widgets.FloatSlider(repair_h, min=0.5, max=max(48, repair_h),
                                        description="repair (h)"),
        "restart_min": widgets.FloatSlider(restart_min, min=0.5, max=max(30, restart_min),
                                           description="restart (min)"),
        "step": widgets.FloatSlider(1, min=0.5, max=2, step=0.01, description="step time x"),
    }  # fmt: skip
    shown = widgets.HTML()
    seeds = min(SEEDS, plan.seeds)

    def update(_: Any = None) -> None:
        positions = {name: slider.value for name, slider in made.items()}
        try:
            played: PlayedRow = plan.play(row, seeds=seeds, **changes_of(positions, found))
            shown.value = played._repr_html_()
        except Error as problem:
            shown.value = f"<em>{problem}</em>"

    for slider in made.values():
        slider.observe(update, "value")
    update()
    return widgets.VBox([*made.values(), shown])
