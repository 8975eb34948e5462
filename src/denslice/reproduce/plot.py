"""The drawing of figure 3: θ in the upper panels, candidates in the lower, latency on a log axis."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

from denslice.errors import MissingExtraError

STAGES = ("#0072b2", "#d55e00")  # Okabe and Ito's colours, which colour-blind people tell apart too
THETAS = ("#009e73", "#cc79a7", "#e69f00")
MARKERS = ("o", "s", "^")
INK = "#333333"
PAPER = {"boxstyle": "square,pad=0.05", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}  # behind labels
LABEL, LABEL_WIDTH, LABEL_HEIGHT = 7, 4.6, 9  # size in points; pixels of a character, and of a line
LEAST_SPAN = 0.02  # of a vertical axis: what is closer than this should not look far apart
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
    "legend.frameon": False,
    "legend.fontsize": 8,
    "legend.title_fontsize": 8,
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
    """The figure as PNG and SVG, by the ending of its file."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtraError("drawing the figure", "plots") from error
    rows = [(over_theta, STAGES, "points: θ"), (over_candidates, THETAS, "points: candidates reranked")]
    rows = [row for row in rows if row[0]]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8, 0.4 + 2.9 * len(rows)), layout="constrained")
        figure.suptitle(title, fontsize=10)
        panels = figure.subplots(len(rows), 2, squeeze=False)
        for (left, right), (lines, colours, varied) in zip(panels, rows, strict=True):
            _draw(left, lines, colours, "rr", "MRR@10")
            _draw(right, lines, colours, "recall", "R@1000")
            right.legend(title=varied, loc="best", alignment="left")
        figure.draw_without_rendering()  # settles the layout, so that places on it are known
        for (left, right), (lines, _, _) in zip(panels, rows, strict=True):
            _label(left, lines, "rr")
            _label(right, lines, "recall")
        return {kind: _saved(figure, kind) for kind in ("png", "svg")}


def _draw(panel: Any, lines: Sequence[Line], colours: Sequence[str], measure: str, name: str) -> None:
    from matplotlib.ticker import FormatStrFormatter, LogLocator, MaxNLocator, NullFormatter

    for line, colour, marker in zip(lines, colours, MARKERS, strict=False):
        across = [point.milliseconds for point in line.points]
        up = [getattr(point, measure) for point in line.points]
        panel.plot(across, up, color=colour, marker=marker, markersize=4.5, linewidth=1.3, label=line.name)
    panel.set_xscale("log")
    panel.set(xlabel="milliseconds a query, p50, one core", ylabel=name)
    panel.margins(x=0.1, y=0.15)
    _spread(panel)
    panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))


def _spread(panel: Any) -> None:
    low, high = panel.get_ylim()
    if high - low < LEAST_SPAN:
        middle = (low + high) / 2
        panel.set_ylim(middle - LEAST_SPAN / 2, middle + LEAST_SPAN / 2)


def _label(panel: Any, lines: Sequence[Line], measure: str) -> None:
    """Writes what each point stands for, above or below it, where there is room; ends of lines come first."""
    taken = [panel.transData.transform(_place(point, measure)) for line in lines for point in line.points]
    boxes = [(x - 3, y - 3, x + 3, y + 3) for x, y in taken]
    for line in lines:
        for point in [line.points[0], line.points[-1], *line.points[1:-1]]:
            x, y = panel.transData.transform(_place(point, measure))
            half = LABEL_WIDTH * len(point.label) / 2
            for below, above in ((y + 4, y + 4 + LABEL_HEIGHT), (y - 4 - LABEL_HEIGHT, y - 4)):
                box = (x - half, below, x + half, above)
                if not any(_overlap(box, other) for other in boxes):
                    boxes.append(box)
                    place = panel.transData.inverted().transform((x, below))
                    panel.text(*place, point.label, fontsize=LABEL, color=INK, ha="center", va="bottom", bbox=PAPER)
                    break


def _place(point: Point, measure: str) -> tuple[float, float]:
    return point.milliseconds, getattr(point, measure)


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _saved(figure: Any, kind: str) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=200, metadata={"Date": None} if kind == "svg" else None)
    return buffer.getvalue()
