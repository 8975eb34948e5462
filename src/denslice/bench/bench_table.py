"""The figures of a run as Markdown. A setting whose recall is too low to be compared has no times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from denslice.reproduce.table_page import markdown

GOOD = 0.97  # recall@10 that a setting must reach to be compared
MISSED = "–"
HEAD = (
    "", "k", "recall@10", "recall@k", "p50 ms", "p95 ms", "queries/s, all cores",
    "build s", "bytes/doc on disk", "bytes/doc in memory", "settings",
)  # fmt: skip


def table(line: Mapping[str, Any]) -> str:
    """Return a row for each contender and k, of the reported setting."""
    figures = line["figures"]
    told = (
        f"{line['collection']}: {figures['documents']:,} documents of {figures['weights_a_document']} weights, "
        f"{figures['queries']:,} queries of {figures['weights_a_query']}; {line.get('slices', 768):,} slices."
    )
    rows = [_row(one, point, figures["documents"]) for one in figures["contenders"] for point in reported(one)]
    return f"{told}\n\n{markdown(HEAD, rows)}"


def is_good(point: Mapping[str, Any]) -> bool:
    """Return whether a setting's recall is high enough to be compared."""
    return bool(point["recall@10"] >= GOOD)


def reported(contender: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the reported settings of a contender, one for each k, by rising k."""
    return [point for point in contender["settings"] if point.get("reported")]


def scaled(contender: Mapping[str, Any], measured: float, documents: int) -> float:
    """Return the time for all documents, of a contender that was measured on some."""
    return measured * documents / float(contender["documents"]) if contender["is_linear"] else measured


def _row(contender: Mapping[str, Any], point: Mapping[str, Any], documents: int) -> list[str]:
    k, build, docs = point["k"], contender["build"], contender["documents"]
    name = contender["name"] if k == 10 else ""
    if k == 10 and docs < documents:
        name += f" ({docs:,} documents{', times scaled to all' if contender['is_linear'] else ''})"
    (measured,) = (one["queries_a_second"] for one in contender["all_cores"] if one["k"] == k)
    rate = 1 / scaled(contender, 1 / measured, documents)
    times = [scaled(contender, point[name], documents) for name in ("p50_ms", "p95_ms")]
    speed = list(map(_figure, (*times, rate))) if is_good(point) else [MISSED] * 3
    recalls = [f"{point['recall@10']:.3f}", f"{point[f'recall@{k}']:.3f}"]
    sizes = [f"{build['bytes'] / docs:,.0f}", f"{contender['resident_bytes'] / docs:,.0f}"]
    took = f"{scaled(contender, build['build_s'], documents):,.1f}" + (" (kept)" if build["kept"] else "")
    setting = ", ".join(f"{name} {value}" for name, value in point["setting"].items())
    once = [took, *sizes] if k == 10 else ["", "", ""]
    return [name, str(k), *recalls, *speed, *once, setting or "exact"]


def _figure(value: float) -> str:
    """Return a number to three digits."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"
