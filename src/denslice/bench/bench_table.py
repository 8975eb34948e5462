"""The figures of a run as Markdown. What misses the recall that is compared at has no time and no ratio."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GOOD = 0.97  # the recall@10 that a setting must reach to be compared
MISSED = "–"
HEAD = (
    "", "k", "recall@10", "recall@k", "p50 ms", "p95 ms", "queries/s, all cores",
    "build s", "bytes/doc on disk", "resident", "settings",
)  # fmt: skip


def table(line: Mapping[str, Any]) -> str:
    """One row for each contender and k, of the settings that are reported."""
    figures = line["figures"]
    told = (
        f"{line['collection']}: {figures['documents']:,} documents of {figures['weights_a_document']} weights, "
        f"{figures['queries']:,} queries of {figures['weights_a_query']}; {line.get('slices', 768):,} slices."
    )
    rows = [_row(one, point, figures["documents"]) for one in figures["contenders"] for point in reported(one)]
    lines = [f"| {' | '.join(HEAD)} |", f"|{' --- |' * len(HEAD)}", *(f"| {' | '.join(row)} |" for row in rows)]
    return f"{told}\n\n" + "\n".join(lines)


def ratios(line: Mapping[str, Any]) -> str:
    """How many times as long each peer takes as denslice, exact and with pruning, as reported; and how large it is."""
    figures, documents = line["figures"], line["figures"]["documents"]
    ours = [one for one in figures["contenders"] if one["name"].startswith("denslice")]
    head = [
        "times as fast as",
        "is",
        "k = 10",
        "k = 100",
        "k = 1000",
        "all cores, k = 10",
        "building",
        "its size on disk",
    ]
    rows = [head, ["---"] * len(head)]
    for peer in figures["contenders"]:
        for mine in ours if peer not in ours else ():
            cells = [*_time_ratios(peer, mine, documents), *_other_ratios(peer, mine, documents)]
            if set(cells) != {MISSED}:
                rows.append([peer["name"] if mine is ours[0] else "", mine["name"], *cells])
    if len(rows) == 2:
        return f"No ratios: denslice and a peer reach recall@10 ≥ {GOOD} together nowhere."
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def is_good(point: Mapping[str, Any]) -> bool:
    """Whether a setting finds enough to be compared."""
    return bool(point["recall@10"] >= GOOD)


def _time_ratios(peer: Mapping[str, Any], mine: Mapping[str, Any], documents: int) -> list[str]:
    """One for each k."""
    pairs = list(zip(reported(peer), reported(mine), strict=True))
    times = [scaled(peer, theirs["p50_ms"], documents) / our["p50_ms"] for theirs, our in pairs]
    good = [is_good(theirs) and is_good(our) for theirs, our in pairs]
    return [_figure(time) if one else MISSED for time, one in zip(times, good, strict=True)]


def _other_ratios(peer: Mapping[str, Any], mine: Mapping[str, Any], documents: int) -> list[str]:
    """Throughput, building and size, of two that find enough of the best ten."""
    if not (is_good(reported(peer)[0]) and is_good(reported(mine)[0])):
        return [MISSED] * 3
    rate = scaled(peer, 1 / _rate(peer, 10), documents) * _rate(mine, 10)
    build = scaled(peer, peer["build"]["build_s"], documents) / mine["build"]["build_s"]
    size = peer["build"]["bytes"] / peer["documents"] / (mine["build"]["bytes"] / mine["documents"])
    return [_figure(rate), _figure(build), f"{size:.2f}×"]


def reported(contender: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The settings of a contender that stand for it, one for each rising k."""
    return [point for point in contender["settings"] if point.get("reported")]


def scaled(contender: Mapping[str, Any], measured: float, documents: int) -> float:
    """Time or bytes for all documents, of a contender that was measured on some."""
    return measured * documents / float(contender["documents"]) if contender["is_linear"] else measured


def _rate(contender: Mapping[str, Any], k: int) -> float:
    return next(float(one["queries_a_second"]) for one in contender["all_cores"] if one["k"] == k)


def _row(contender: Mapping[str, Any], point: Mapping[str, Any], documents: int) -> list[str]:
    k, build, docs = point["k"], contender["build"], contender["documents"]
    name = contender["name"] if k == 10 else ""
    if k == 10 and docs < documents:
        name += f" (of {docs:,} documents{', scaled to all' if contender['is_linear'] else ' alone'})"
    rate = 1 / scaled(contender, 1 / _rate(contender, k), documents)
    times = [scaled(contender, point[name], documents) for name in ("p50_ms", "p95_ms")]
    speed = list(map(_figure, (*times, rate))) if is_good(point) else [MISSED] * 3
    recalls = [f"{point['recall@10']:.3f}", f"{point[f'recall@{k}']:.3f}"]
    sizes = [f"{build['bytes'] / docs:,.0f}", f"{contender['resident_bytes'] / docs:,.0f}"]
    took = f"{scaled(contender, build['build_s'], documents):,.1f}" + (" (kept)" if build["kept"] else "")
    setting = ", ".join(f"{name} {value}" for name, value in point["setting"].items())
    once = [took, *sizes] if k == 10 else ["", "", ""]
    return [name, str(k), *recalls, *speed, *once, setting or "exact"]


def _figure(value: float) -> str:
    """A number to three digits."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"
