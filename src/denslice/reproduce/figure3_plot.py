"""Draws figure 3: θ in the upper panels, candidates in the lower ones, latency on a logarithmic axis."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

from denslice.errors import MissingExtraError

STAGES = ("#0072b2", "#d55e00", "#e69f00")  # from Okabe and Ito's palette for colour-blind readers
THETAS = ("#009e73", "#cc79a7", "#e69f00")
MARKERS = ("o", "s", "^")
INK = "#333333"
PAPER = {"boxstyle": "square,pad=0.05", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}  # behind labels
LABEL, LABEL_WIDTH, LABEL_HEIGHT = 7, 6, 9  # size in points; pixels of a character, and of a line
LEAST_RISE, LEAST_RATIO = 0.02, 4  # of the axes: what is closer than this should not look far apart
STYLE: dict[Any, Any] = {
    "font.sans-serif": ["DejaVu Sans"],  # one name keeps the file small
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
    """One setting: its latency and effectiveness."""

    milliseconds: float
    rr: float
    recall: float | None  # None if fewer than 1,000 documents are returned
    label: str


class Line(NamedTuple):
    """Settings that one line connects."""

    name: str
    points: list[Point]


def drawn(title: str, over_theta: Sequence[Line], over_candidates: Sequence[Line]) -> bytes:
    """Return the figure as SVG."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtraError("drawing the figure", "plots") from error
    rows = [(over_theta, STAGES, "points: θ"), (over_candidates, THETAS, "points: candidates reranked")]
    rows = [row for row in rows if row[0]]
    across = _span([point.milliseconds for lines, _, _ in rows for line in lines for point in line.points])
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8, 0.4 + 2.9 * len(rows)), layout="constrained")
        figure.suptitle(title, fontsize=10)
        panels = figure.subplots(len(rows), 2, squeeze=False)
        for (left, right), (lines, colours, varied) in zip(panels, rows, strict=True):
            _draw(left, lines, colours, across, "rr", "MRR@10")
            _draw(right, lines, colours, across, "recall", "R@1000")
            left.legend(title=varied, loc="best", alignment="left")
        figure.draw_without_rendering()  # fixes the layout, which labels are placed by
        for (left, right), (lines, _, _) in zip(panels, rows, strict=True):
            _label(left, lines, "rr")
            _label(right, lines, "recall")
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
        return buffer.getvalue()


def _draw(
    panel: Any, lines: Sequence[Line], colours: Sequence[str], across: tuple[float, float], measure: str, name: str
) -> None:
    from matplotlib.ticker import FixedLocator, FormatStrFormatter, MaxNLocator, NullLocator

    for line, colour, marker in zip(lines, colours, MARKERS, strict=False):
        places = list(zip(*(_place(point, measure) for point in _shown(line, measure)), strict=True))
        if not places:
            continue
        panel.plot(*places, color=colour, linewidth=1.3, zorder=1)
        panel.plot(*places, color=colour, linestyle="none", marker=marker, markersize=4.5, zorder=3)
        panel.plot([], [], color=colour, linewidth=1.3, marker=marker, markersize=4.5, label=line.name)
    panel.set_xscale("log")
    panel.set(xlabel="milliseconds a query, p50, one core", ylabel=name, xlim=across)
    values = [getattr(point, measure) for line in lines for point in _shown(line, measure)] or [0.0]
    room = max(0.15 * (max(values) - min(values)), (LEAST_RISE - max(values) + min(values)) / 2)
    panel.set_ylim(min(values) - room, max(values) + room)
    panel.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    panel.xaxis.set_major_locator(FixedLocator([tick for tick in _ticks(across) if across[0] <= tick <= across[1]]))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(FormatStrFormatter("%g"))


def _span(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of a logarithmic axis: the values and a margin, at least LEAST_RATIO apart."""
    low, high = min(values), max(values)
    room = max((high / low) ** 0.1, (LEAST_RATIO * low / high) ** 0.5)
    return low / room, high * room


def _ticks(across: tuple[float, float]) -> list[float]:
    """Return round numbers, more of them if the axis is short."""
    steps = (1, 1.5, 2, 3, 5, 7) if across[1] / across[0] < 10 else (1, 2, 5)
    return [step * 10.0**power for power in range(-4, 6) for step in steps]


def _label(panel: Any, lines: Sequence[Line], measure: str) -> None:
    """Label each point above or below it if there is room; the ends of lines come first."""
    taken = [panel.transData.transform(_place(point, measure)) for line in lines for point in _shown(line, measure)]
    boxes = [(x - 3, y - 3, x + 3, y + 3) for x, y in taken]
    for line in lines:
        points = _shown(line, measure)
        for point in [*points[:1], *points[1:][-1:], *points[1:-1]]:
            x, y = panel.transData.transform(_place(point, measure))
            half = LABEL_WIDTH * len(point.label) / 2
            for below, above in ((y + 4, y + 4 + LABEL_HEIGHT), (y - 4 - LABEL_HEIGHT, y - 4)):
                box = (x - half, below, x + half, above)
                if not any(_overlap(box, other) for other in boxes):
                    boxes.append(box)
                    place = panel.transData.inverted().transform((x, below))
                    panel.text(
                        *place, point.label, fontsize=LABEL, color=INK, ha="center", va="bottom", bbox=PAPER, zorder=2
                    )
                    break


def _shown(line: Line, measure: str) -> list[Point]:
    """Return the points that have this measure."""
    return [point for point in line.points if getattr(point, measure) is not None]


def _place(point: Point, measure: str) -> tuple[float, float]:
    return point.milliseconds, getattr(point, measure)


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
