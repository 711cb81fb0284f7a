"""Charts as data, and their drawing by matplotlib or plotly."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Iterable, List, Optional, Sequence, Tuple, Union

from orrery._extras import require
from orrery._html import number

#: Colours that colour-blind readers tell apart (Okabe and Ito).
PALETTE = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#b8a800",
)  # fmt: skip
#: Line styles and hatches, so that no series differs by its colour alone.
DASHES = ("-", "--", "-.", ":")
HATCHES = ("", "//", "..", "xx", "\\\\", "oo", "++", "**")
_PLOTLY_DASHES = ("solid", "dash", "dashdot", "dot")
_PLOTLY_SHAPES = ("", "/", ".", "x", "\\", "+", "-", "|")

Numbers = Iterable[float]


@dataclass(frozen=True)
class Axis:
    """An axis.

    Attributes
    ----------
    label : str
        Quantity and unit.
    from_zero : bool
        Whether the axis begins at 0.
    log : bool
        Whether the scale is logarithmic.
    ticks : sequence of (float, str)
        Named positions; empty: numbers.
    """

    label: str
    from_zero: bool = False
    log: bool = False
    ticks: Sequence[Tuple[float, str]] = ()


@dataclass(frozen=True)
class Line:
    """Points joined by a line, or points alone."""

    x: Numbers
    y: Numbers
    name: str = ""
    style: int = 0
    joined: bool = True
    marked: bool = False
    sizes: Optional[Numbers] = None
    labels: Sequence[str] = ()


@dataclass(frozen=True)
class Band:
    """The area between two lines."""

    x: Numbers
    low: Numbers
    high: Numbers
    name: str = ""
    style: int = 0
    strength: float = 0.3


@dataclass(frozen=True)
class Bars:
    """Horizontal bars from `start` to `end` at the positions `y`; labels beside their `end`, or on
    the given side of the bar."""

    y: Numbers
    start: Numbers
    end: Numbers
    name: str = ""
    style: int = 0
    labels: Sequence[str] = ()
    height: float = 0.7
    side: str = ""


@dataclass(frozen=True)
class Cells:
    """A grid of values by colour; ``None``: no value, drawn hatched with its text."""

    values: Sequence[Sequence[Optional[float]]]
    texts: Sequence[Sequence[str]]
    unit: str


@dataclass(frozen=True)
class Rule:
    """A straight line across the chart."""

    at: float
    name: str
    vertical: bool = False
    style: int = 1


Mark = Union[Line, Band, Bars, Cells, Rule]


@dataclass(frozen=True)
class Chart:
    """A chart.

    Attributes
    ----------
    title : str
        Statement of the chart.
    x, y : Axis
        Axes with units.
    marks : list
        Drawn in this order.
    height : float
        Inches at a width of 7.5.
    """

    title: str
    x: Axis
    y: Axis
    marks: List[Mark] = field(default_factory=list)
    height: float = 4.2


def draw(chart: Chart, backend: str = "matplotlib", axes: Any = None) -> Any:
    """Draw a chart.

    Parameters
    ----------
    chart : Chart
        The chart.
    backend : {"matplotlib", "plotly"}
        Library, which must be installed.
    axes : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.axes.Axes or plotly.graph_objects.Figure
        The drawing.

    Raises
    ------
    ValueError
        For another backend.
    ModuleNotFoundError
        If the library is not installed.
    """
    if backend == "matplotlib":
        return _MatplotlibDrawing(chart, axes).axes
    if backend == "plotly":
        return _plotly_figure(chart)
    raise ValueError(f"backend: expected 'matplotlib' or 'plotly', found {backend!r}")


def svg_of(chart: Chart) -> Optional[str]:
    """Draw a chart as SVG.

    Parameters
    ----------
    chart : Chart
        The chart.

    Returns
    -------
    str or None
        The element ``svg``; ``None`` where matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return None
    figure = Figure(figsize=(7.5, chart.height), layout="constrained")
    FigureCanvasSVG(figure)
    _MatplotlibDrawing(chart, figure.subplots(), own=True)
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    drawing = text[text.index("<svg") :]
    # A window narrower than the drawing shrinks it instead of cutting it off.
    return drawing.replace("<svg ", '<svg style="max-width: 100%; height: auto" ', 1)


class _MatplotlibDrawing:
    def __init__(self, chart: Chart, axes: Any, own: bool = False) -> None:
        if axes is None:
            require("matplotlib", "plot")
            own = True
            pyplot = import_module("matplotlib.pyplot")
            _, axes = pyplot.subplots(figsize=(7.5, chart.height), layout="constrained")
        self.axes = axes
        self.named = False
        self.beside: List[Tuple[float, str]] = []
        for mark in chart.marks:
            getattr(self, f"_draw_{type(mark).__name__.lower()}")(mark)
        self._set_axis(chart.x, "x")
        self._set_axis(chart.y, "y")
        axes.set_title(chart.title, fontsize=10, loc="left", wrap=True)
        if self.named and own:  # below the drawing, where it hides nothing
            axes.figure.legend(fontsize=8, ncols=4, loc="outside lower center", frameon=False)
        elif self.named:
            axes.legend(fontsize=8, framealpha=0.9)
        axes.set_axisbelow(True)

    def _name(self, name: str) -> Optional[str]:
        self.named = self.named or bool(name)
        return name or None

    def _draw_line(self, mark: Line) -> None:
        colour = PALETTE[mark.style % len(PALETTE)]
        if mark.joined:
            marker = "o" if mark.marked else None
            dashes = DASHES[mark.style % len(DASHES)]
            self.axes.plot(mark.x, mark.y, dashes, color=colour, marker=marker, markersize=4,
                           label=self._name(mark.name))  # fmt: skip
        else:
            markers = ("o", "s", "^", "D", "v", "P", "X", "*")
            sizes = 36 if mark.sizes is None else list(mark.sizes)
            self.axes.scatter(mark.x, mark.y, s=sizes, color=colour, edgecolor="black",
                              linewidth=0.5, marker=markers[mark.style % len(markers)],
                              label=self._name(mark.name), zorder=3)  # fmt: skip
        for x, y, text in zip(mark.x, mark.y, mark.labels):
            self.axes.annotate(text, (x, y), xytext=(5, 4), textcoords="offset points",
                               fontsize=7)  # fmt: skip

    def _draw_band(self, mark: Band) -> None:
        self.axes.fill_between(mark.x, mark.low, mark.high, linewidth=0, alpha=mark.strength,
                               color=PALETTE[mark.style % len(PALETTE)],
                               label=self._name(mark.name))  # fmt: skip

    def _draw_bars(self, mark: Bars) -> None:
        widths = [end - start for start, end in zip(mark.start, mark.end)]
        self.axes.barh(mark.y, widths, left=mark.start, height=mark.height, edgecolor="white",
                       color=PALETTE[mark.style % len(PALETTE)], linewidth=0.5,
                       hatch=HATCHES[mark.style % len(HATCHES)],
                       label=self._name(mark.name))  # fmt: skip
        for y, start, end, text in zip(mark.y, mark.start, mark.end, mark.labels):
            if text:
                backward = mark.side == "left" or (not mark.side and end < start)
                place = end if not mark.side else (min if backward else max)(start, end)
                self.axes.annotate(text, (place, y), xytext=(-3 if backward else 3, 0),
                                   textcoords="offset points", va="center", fontsize=7,
                                   ha="right" if backward else "left")  # fmt: skip
        if any(mark.labels):
            self.axes.use_sticky_edges = False  # labels need room at both ends of the bars
            self.axes.margins(x=0.16)

    def _draw_cells(self, mark: Cells) -> None:
        import numpy as np
        from matplotlib.patches import Rectangle
        from matplotlib.ticker import FuncFormatter

        grid = np.array([[np.nan if v is None else v for v in row] for row in mark.values])
        image = self.axes.imshow(grid, cmap="cividis", aspect="auto", origin="lower")
        # Numbers stand beside the bar as they are, without a common factor above it.
        self.axes.figure.colorbar(image, ax=self.axes, label=mark.unit,
                                  format=FuncFormatter(lambda value, _: number(value)))  # fmt: skip
        middle = float(np.nanmean([np.nanmin(grid), np.nanmax(grid)]))
        for i, row in enumerate(mark.texts):
            for j, text in enumerate(row):
                value = grid[i][j]
                if np.isnan(value):
                    self.axes.add_patch(
                        Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor="#f2f2f2",
                                  edgecolor="#bbbbbb", hatch="//", linewidth=0))  # fmt: skip
                dark = not np.isnan(value) and value < middle
                box = None if not np.isnan(value) else {"facecolor": "white", "edgecolor": "none",
                                                        "pad": 0.6, "alpha": 0.85}  # fmt: skip
                self.axes.text(j, i, text, ha="center", va="center", fontsize=7.5, bbox=box,
                               color="white" if dark else "black")  # fmt: skip

    def _draw_rule(self, mark: Rule) -> None:
        across = self.axes.axvline if mark.vertical else self.axes.axhline
        across(mark.at, color=PALETTE[mark.style % len(PALETTE)], linestyle="--", linewidth=1.3,
               label=self._name(mark.name))  # fmt: skip

    def _set_axis(self, axis: Axis, which: str) -> None:
        axes = self.axes
        getattr(axes, f"set_{which}label")(axis.label)
        if axis.log:
            getattr(axes, f"set_{which}scale")("log")
        if axis.ticks:
            places, names = zip(*axis.ticks)
            getattr(axes, f"set_{which}ticks")(places, names, fontsize=8)
        elif not axis.log:
            axes.grid(True, axis=which, color="#dddddd", linewidth=0.6)
            plain = import_module("matplotlib.ticker").ScalarFormatter(useOffset=False)
            plain.set_scientific(False)
            getattr(axes, f"{which}axis").set_major_formatter(plain)
        if axis.from_zero:
            limits = getattr(axes, f"get_{which}lim")()
            getattr(axes, f"set_{which}lim")(0, max(limits))


def _plotly_figure(chart: Chart) -> Any:
    require("plotly", "plot")
    go = import_module("plotly.graph_objects")
    figure = go.Figure()
    for mark in chart.marks:
        _add_to_plotly(go, figure, mark)
    figure.update_layout(title={"text": chart.title, "font": {"size": 14}}, template="plotly_white",
                         height=int(100 * chart.height), barmode="overlay")  # fmt: skip
    for axis, update in ((chart.x, figure.update_xaxes), (chart.y, figure.update_yaxes)):
        update(title=axis.label, type="log" if axis.log else None,
               rangemode="tozero" if axis.from_zero else None)  # fmt: skip
        if axis.ticks:
            places, names = zip(*axis.ticks)
            update(tickvals=list(places), ticktext=list(names))
    return figure


def _add_to_plotly(go: Any, figure: Any, mark: Mark) -> None:
    if isinstance(mark, Rule):
        add = figure.add_vline if mark.vertical else figure.add_hline
        add(mark.at, line_dash="dash", line_color=PALETTE[mark.style % len(PALETTE)],
            annotation_text=mark.name)  # fmt: skip
        return
    if isinstance(mark, Cells):
        figure.add_trace(go.Heatmap(z=mark.values, text=mark.texts, texttemplate="%{text}",
                                    colorscale="Cividis",
                                    colorbar={"title": mark.unit}))  # fmt: skip
        # A heat map draws no text where it has no value.
        empty = [(j, i, text.replace("\n", "<br>")) for i, row in enumerate(mark.texts)
                 for j, text in enumerate(row) if text and mark.values[i][j] is None]  # fmt: skip
        if empty:
            x, y, texts = zip(*empty)
            figure.add_trace(go.Scatter(x=x, y=y, text=texts, mode="text", showlegend=False,
                                        hoverinfo="skip"))  # fmt: skip
        return
    colour = PALETTE[mark.style % len(PALETTE)]
    shown = bool(mark.name)
    if isinstance(mark, Line):
        mode = "lines+markers" if mark.joined and mark.marked else "lines"
        mode = mode if mark.joined else "markers"
        sizes = None if mark.sizes is None else [max(6.0, s**0.5) for s in mark.sizes]
        figure.add_trace(go.Scatter(
            x=list(mark.x), y=list(mark.y), name=mark.name, showlegend=shown,
            mode=mode + ("+text" if mark.labels else ""), text=list(mark.labels) or None,
            textposition="top right", marker={"color": colour, "size": sizes or 8},
            line={"color": colour, "dash": _PLOTLY_DASHES[mark.style % 4]}))  # fmt: skip
    elif isinstance(mark, Band):
        rgb = ",".join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))
        figure.add_trace(go.Scatter(
            x=[*mark.x, *reversed(list(mark.x))], y=[*mark.high, *reversed(list(mark.low))],
            fill="toself", fillcolor=f"rgba({rgb},{mark.strength})", line={"width": 0},
            name=mark.name, showlegend=shown, hoverinfo="skip"))  # fmt: skip
    else:
        widths = [end - start for start, end in zip(mark.start, mark.end)]
        figure.add_trace(go.Bar(
            x=widths, y=list(mark.y), base=list(mark.start), orientation="h", name=mark.name,
            showlegend=shown, width=mark.height, text=list(mark.labels) or None,
            textposition="outside" if mark.labels else None,
            marker={"color": colour,
                    "pattern": {"shape": _PLOTLY_SHAPES[mark.style % 8]}}))  # fmt: skip
