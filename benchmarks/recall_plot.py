"""Draws runs of benchmarks: recall against time, time against the size of the collection, quality against seconds."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from denslice.bench.bench_table import reported, scaled
from denslice.errors import MissingExtraError

Line = Mapping[str, Any]
STYLE: Any = {
    "svg.hashsalt": "denslice",
    "svg.fonttype": "none",  # text stays text
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
OURS, INK, GRID = "#0b6e4f", "#444444", "#e5e5e5"
COLOURS = ("#d1495b", "#edae49", "#00798c", "#8d99ae", "#5f4b8b", "#b07d62")
MARKERS = "osD^vP"
LEAST = 0.75  # recall below it is not shown
MILLISECONDS = (0.1, 0.2, 0.3, 0.5, 1, 2, 3, 5, 10)
SECONDS = (0.3, 1, 3, 10, 30, 100, 300, 1000, 3000)  # marked on the axis


def recall_against_time(line: Line, ks: Sequence[int] = (10, 1000)) -> bytes:
    """Return an SVG with a panel for each k: every setting of every contender, and a line through its best ones."""
    figure = _figure(4.2 * len(ks), 3.4)
    documents = line["figures"]["documents"]
    panels = figure.subplots(1, len(ks), squeeze=False)[0]
    for panel, k in zip(panels, ks, strict=True):
        for contender, colour, marker in _coloured(line["figures"]["contenders"]):
            points = [one for one in contender["settings"] if one["k"] == k and one[f"recall@{k}"] >= LEAST]
            places = sorted((scaled(contender, one["p50_ms"], documents), one[f"recall@{k}"]) for one in points)
            if places:
                style = {"color": colour, "marker": marker, "markersize": 9 if marker == "*" else 4}
                panel.plot(*zip(*places, strict=True), linestyle="none", alpha=0.35, **style)
                panel.plot(*zip(*_best(places), strict=True), linewidth=1.2, label=contender["name"], **style)
        panel.set_xscale("log")
        panel.set(title=f"k = {k}", xlabel="milliseconds a query, p50, one core", ylabel=f"recall@{k}")
        panel.set_ylim(LEAST, 1.005)
        panel.grid(color=GRID, linewidth=0.6)
    panels[-1].legend(frameon=False, fontsize=8, loc="lower right")
    figure.suptitle(f"{line['collection']}, {documents:,} documents", fontsize=10)
    return _svg(figure)


def time_against_size(lines: Sequence[Line]) -> bytes:
    """Return an SVG of milliseconds by number of documents: denslice for each k, and peers at k = 10 and 1000."""
    figure = _figure(6.6, 3.8)
    panel = figure.subplots()
    drawn: dict[tuple[str, int], list[tuple[int, float]]] = {}
    for line in sorted(lines, key=lambda one: int(one["figures"]["documents"])):
        for contender in line["figures"]["contenders"]:
            if contender["documents"] == line["figures"]["documents"]:
                for point in reported(contender):
                    places = drawn.setdefault((contender["name"], point["k"]), [])
                    places.append((contender["documents"], point["p50_ms"]))
    names = list(dict.fromkeys(name for name, _ in drawn))
    colours = dict(zip(names, (OURS, *COLOURS), strict=False))
    for (name, k), places in drawn.items():
        if name == "denslice" or (len(places) > 1 and k != 100):
            marker = {10: "o", 100: "^", 1000: "s"}[k]
            label = f"{name}, k = {k}"
            panel.plot(
                *zip(*places, strict=True), color=colours[name], marker=marker, markersize=4, linewidth=1.2, label=label
            )
    panel.set(xscale="log", yscale="log", xlabel="documents", ylabel="milliseconds a query, p50, one core")
    panel.grid(color=GRID, linewidth=0.6)
    panel.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return _svg(figure)


def time_by_documents(curves: Mapping[str, Sequence[tuple[int, float]]]) -> bytes:
    """Return an SVG of milliseconds by number of documents, with a line for each kind of search."""
    figure = _figure(6.6, 3.8)
    panel = figure.subplots()
    for (name, places), colour, marker in zip(curves.items(), (OURS, *COLOURS), MARKERS, strict=False):
        panel.plot(*zip(*places, strict=True), color=colour, marker=marker, markersize=4, linewidth=1.2, label=name)
    panel.set(xscale="log", yscale="log", xlabel="documents", ylabel="milliseconds a query, p50, one core")
    panel.grid(color=GRID, linewidth=0.6)
    panel.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return _svg(figure)


def recall_by_milliseconds(panels: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Return an SVG with a panel for each comparison: a point for each engine's settings for the ten best."""
    figure = _figure(4.6 * len(panels), 3.4)
    for panel, (title, engines) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        others = zip(COLOURS, MARKERS, strict=False)
        for name, found in engines.items():
            colour, marker = (OURS, "*") if name.startswith("denslice") else next(others)
            places = [(one["p50_ms"], one["recall@10"]) for one in found["settings"] if one["k"] == 10]
            style = {"color": colour, "marker": marker, "markersize": 9 if marker == "*" else 6}
            panel.plot(*zip(*places, strict=True), linestyle="none", label=name, **style)
        panel.set(title=title, xscale="log", xlabel="milliseconds a query, p50, one core", ylabel="recall@10")
        _plain_ticks(panel, MILLISECONDS)
        panel.grid(color=GRID, linewidth=0.6)
        panel.legend(frameon=False, fontsize=8)
    return _svg(figure)


def quality_by_first_answer(places: Mapping[str, tuple[float, float]], title: str) -> bytes:
    """Return an SVG with a point for each product, its name beside it: seconds to the first answer, and nDCG@10."""
    figure = _figure(8.4, 4.2)
    panel = figure.subplots()
    every, found = zip(*places.values(), strict=True)
    late = {name: ndcg for name, (seconds, ndcg) in places.items() if seconds > max(every) / 2}
    beside = _apart(late, (max(found) - min(found)) / 18)
    for name, (seconds, ndcg) in places.items():
        is_ours = name.startswith("denslice")
        style = {"color": OURS, "marker": "*", "markersize": 12} if is_ours else {"color": COLOURS[0], "marker": "o"}
        panel.plot(seconds, ndcg, linestyle="none", **style)
        label = {"text": name, "xy": (seconds, ndcg), "fontsize": 8, "va": "center", "color": OURS if is_ours else INK}
        if name in beside:  # the names of products that end together stand in a column, each with a line to its point
            line = {"arrowstyle": "-", "color": INK, "linewidth": 0.5, "relpos": (0, 0.5), "shrinkA": 1, "shrinkB": 3}
            panel.annotate(xytext=(1.6 * max(every), beside[name]), arrowprops=line, **label)
        else:
            panel.annotate(xytext=(9, 0), textcoords="offset points", **label)
    panel.set(xscale="log", xlabel="seconds to the first answer, two cores", ylabel="nDCG@10, mean", title=title)
    panel.set_xlim(min(every) / 1.4, 5 * max(every))
    _plain_ticks(panel, SECONDS)
    panel.grid(color=GRID, linewidth=0.6)
    return _svg(figure)


def _apart(heights: Mapping[str, float], gap: float) -> dict[str, float]:
    """Return heights at least a gap apart, in the same order, around those that were given."""
    names = sorted(heights, key=lambda name: heights[name])
    groups: list[list[str]] = []
    for name in names:
        groups.append([name])
        while len(groups) > 1 and _around(groups[-1], heights, gap)[0] - _around(groups[-2], heights, gap)[-1] < gap:
            groups[-2:] = [groups[-2] + groups[-1]]
    return {name: at for group in groups for name, at in zip(group, _around(group, heights, gap), strict=True)}


def _around(group: Sequence[str], heights: Mapping[str, float], gap: float) -> list[float]:
    middle = fmean(heights[name] for name in group)
    return [middle + gap * (at - (len(group) - 1) / 2) for at in range(len(group))]


def quality_by_slices(curves: Mapping[tuple[str, str], Sequence[tuple[int, float]]]) -> bytes:
    """Return an SVG of percent of undensified nDCG@10 by number of slices, for each kind of slicing and query."""
    figure = _figure(8.5, 4)
    panel = figure.subplots()
    panel.axhline(100, color=INK, linewidth=0.8)
    colours = {"learned": OURS, "stride": COLOURS[0], "random": COLOURS[3], "contiguous": COLOURS[1]}
    for (slicing, query), places in curves.items():
        style = {"linestyle": "-", "marker": "o"} if query == "full" else {"linestyle": ":", "marker": "."}
        label = f"{slicing}, {query} query"
        panel.plot(*zip(*places, strict=True), color=colours[slicing], label=label, **style)
    ticks = sorted({slices for places in curves.values() for slices, _ in places})
    panel.set_xscale("log", base=2)
    panel.set_xticks(ticks, [str(tick) for tick in ticks])
    panel.set(xlabel="slices M", ylabel="% of undensified nDCG@10")
    panel.grid(axis="y", color=GRID, linewidth=0.6)
    panel.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return _svg(figure)


def quality_against_seconds(line: Line) -> bytes:
    """Return an SVG of nDCG@10 by seconds since the start: each contender begins at its first possible search."""
    figure = _figure(8.4, 3.8)
    panel, figures = figure.subplots(), line["figures"]
    every = [point["seconds"] for one in figures["contenders"] for point in one["points"]]
    first, last = min(every) / 1.3, max(every) * 1.3
    bottom = min(point["ndcg@10"] for one in figures["contenders"] for point in one["points"]) - 0.03
    for contender, colour, marker in _coloured(figures["contenders"]):
        times, values = zip(*((one["seconds"], one["ndcg@10"]) for one in contender["points"]), strict=True)
        width, size = (2.0, 9) if marker == "*" else (1.0, 5)
        panel.step([*times, last], [*values, values[-1]], where="post", color=colour, linewidth=width)
        panel.vlines(times[0], bottom, values[0], color=colour, linewidth=width, linestyle="dotted")
        label = f"{contender['name']}: from {times[0]:.1f} s"
        panel.plot(times, values, linestyle="none", color=colour, marker=marker, markersize=size, label=label)
    cores = line["hardware"]["cores"]
    panel.set(xscale="log", xlabel=f"seconds since the start, {cores} cores", ylabel="nDCG@10")
    panel.set(xlim=(first, last), ylim=(bottom, None))
    _plain_ticks(panel, SECONDS)
    panel.grid(color=GRID, linewidth=0.6)
    panel.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5))
    figure.suptitle(f"{line['configuration']['collection']}, {figures['documents']:,} documents", fontsize=10)
    return _svg(figure)


def _plain_ticks(panel: Any, ticks: Sequence[float]) -> None:
    """Mark those of the numbers that the axis reaches, and write them without powers of ten."""
    first, last = panel.get_xlim()
    panel.set_xticks([tick for tick in ticks if first <= tick <= last])
    panel.xaxis.set_major_formatter("{x:g}")
    panel.xaxis.set_minor_formatter("")


def _coloured(contenders: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], str, str]]:
    peers = [one for one in contenders if one["name"] != "denslice"]
    ours = [(one, OURS, "*") for one in contenders if one["name"] == "denslice"]
    return [*ours, *((one, colour, marker) for one, colour, marker in zip(peers, COLOURS, MARKERS, strict=False))]


def _best(places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the places, by rising time, that have a higher recall than every faster one."""
    best: list[tuple[float, float]] = []
    for time, found in places:
        if not best or found > best[-1][1]:
            best.append((time, found))
    return best


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtraError("drawing", "plots") from error
    return Figure(figsize=(width, height), layout="constrained")


def _svg(figure: Any) -> bytes:
    import matplotlib as mpl

    buffer = io.BytesIO()
    with mpl.rc_context(STYLE):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()
