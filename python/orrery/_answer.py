"""Answers to questions of a planner: a sentence, a table and a plot."""

from __future__ import annotations

import html
from typing import Any, Sequence

import pandas as pd

from orrery._charts import Chart, draw, svg_of
from orrery._html import number


class Answer:
    """An answer of `orrery.Plan`: a sentence, a table and a plot.

    Attributes
    ----------
    text : str
        The answer in words.
    table : pandas.DataFrame
        The numbers; units are in the names of the columns.
    notes : list of str
        Assumptions and limits of the answer.
    """

    def __init__(
        self, title: str, text: str, table: pd.DataFrame, chart: Chart, notes: Sequence[str] = ()
    ) -> None:
        self.title = title
        self.text = text
        self.table = table
        self.notes = list(notes)
        self._chart = chart

    def plot(self, axes: Any = None, backend: str = "matplotlib") -> Any:
        """Draw the answer.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure.
        backend : {"matplotlib", "plotly"}
            Library that draws; it must be installed.

        Returns
        -------
        matplotlib.axes.Axes or plotly.graph_objects.Figure
            The drawing.
        """
        return draw(self._chart, backend, axes)

    def __repr__(self) -> str:
        shown = self.table.head(12).to_string(float_format=number)
        return f"{self.title}: {self.text}\n{shown}"

    def _repr_html_(self) -> str:
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        table = self.table.head(12).to_html(float_format=number, border=0)
        picture = svg_of(self._chart)
        return (
            f"<div><strong>{html.escape(self.title)}</strong><div>{html.escape(self.text)}</div>"
            f"{picture or ''}<details{'' if picture else ' open'}><summary>numbers</summary>"
            f"{table}</details><ul>{notes}</ul></div>"
        )
