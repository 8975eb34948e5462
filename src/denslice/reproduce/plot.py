"""The drawing of figure 3: two rows of panels, θ above and candidates below, latency on a log axis."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

from denslice.errors import MissingExtraError

COLOURS = ("#0072b2", "#d55e00", "#009e73")  # Okabe and Ito's, told apart by colour-blind people too
MARKERS = ("o", "s", "^")
GREY = "#555555"
LEAST_SPAN = 0.02  # of the vertical axis: what is less than this apart should not look far apart
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 9,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "denslice",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#e5e5e5",
    "grid.linewidth": 0.6,
}


class Point(NamedTuple):
    """One setting: what it costs and what it finds."""

    milliseconds: float
    rr: float
    recall: float
    label: str


class Line(NamedTuple):
    """Settings that belong together."""

    name: str
    points: list[Point]


def drawn(title: str, over_theta: Sequence[Line], over_candidates: Sequence[Line]) -> dict[str, bytes]:
    """The figure as PNG and SVG."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtraError("drawing the figure", "plots") from error
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8, 6), layout="constrained")
        figure.suptitle(title, fontsize=10, fontweight="bold")
        panels = figure.subplots(2, 2, sharex="row")
        for row, lines, varied in ((0, over_theta, "θ"), (1, over_candidates, "candidates")):
            _draw(panels[row][0], lines, "rr", "MRR@10")
            _draw(panels[row][1], lines, "recall", "R@1000")
            panels[row][0].legend(frameon=False, fontsize=8, title=f"labels: {varied}", title_fontsize=8)
        return {kind: _saved(figure, kind) for kind in ("png", "svg")}


def _draw(panel: Any, lines: Sequence[Line], measure: str, name: str) -> None:
    for line, colour, marker in zip(lines, COLOURS, MARKERS, strict=False):
        across = [point.milliseconds for point in line.points]
        up = [getattr(point, measure) for point in line.points]
        panel.plot(across, up, color=colour, marker=marker, markersize=4, linewidth=1.4, label=line.name)
        for point, height in zip(line.points, up, strict=True):
            place = (point.milliseconds, height)
            panel.annotate(point.label, place, (0, 5), textcoords="offset points", fontsize=7, color=GREY, ha="center")
    _spread(panel)
    panel.set_xscale("log")
    panel.set(xlabel="milliseconds a query (p50)", ylabel=name)
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.xaxis.set_major_formatter(ScalarFormatter())
    panel.xaxis.set_minor_formatter(NullFormatter())


def _spread(panel: Any) -> None:
    low, high = panel.get_ylim()
    if high - low < LEAST_SPAN:
        middle = (low + high) / 2
        panel.set_ylim(middle - LEAST_SPAN / 2, middle + LEAST_SPAN / 2)


def _saved(figure: Any, kind: str) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=200, metadata={"Date": None} if kind == "svg" else None)
    return buffer.getvalue()
