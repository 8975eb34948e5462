"""The figures of a run as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HEAD = (
    "", "k", "recall@10", "recall@k", "p50 ms", "p95 ms", "queries/s, all cores",
    "build s", "bytes/doc on disk", "resident", "settings",
)  # fmt: skip


def table(line: Mapping[str, Any]) -> str:
    """One row for each contender and k, of the settings that are reported."""
    figures = line["figures"]
    told = (
        f"{line['collection']}: {figures['documents']:,} documents of {figures['weights_a_document']} weights, "
        f"{figures['queries']:,} queries of {figures['weights_a_query']}."
    )
    rows = [_row(one, point, figures["documents"]) for one in figures["contenders"] for point in reported(one)]
    lines = [f"| {' | '.join(HEAD)} |", f"|{' --- |' * len(HEAD)}", *(f"| {' | '.join(row)} |" for row in rows)]
    return f"{told}\n\n" + "\n".join(lines)


def ratios(line: Mapping[str, Any]) -> str:
    """How many times as long each peer takes as denslice, at the reported settings, and how large it is."""
    figures = line["figures"]
    ours = next(one for one in figures["contenders"] if one["name"] == "denslice")
    head = ["denslice is … times as fast as", "k = 10", "k = 100", "k = 1000", "all cores, k = 10", "building", "its size on disk"]
    rows = [head, ["---"] * len(head)]
    for peer in figures["contenders"]:
        if peer is not ours:
            times = [
                scaled(peer, theirs["p50_ms"], figures["documents"]) / mine["p50_ms"]
                for theirs, mine in zip(reported(peer), reported(ours), strict=True)
            ]
            share = peer["documents"] / figures["documents"]
            rate = ours["all_cores"][0]["queries_a_second"] / (peer["all_cores"][0]["queries_a_second"] * share)
            build = peer["build"]["build_s"] / share / ours["build"]["build_s"]
            size = peer["build"]["bytes"] / share / ours["build"]["bytes"]
            cells = [*(f"{one:,.3g}" for one in (*times, rate, build)), f"{size:.2f}×"]
            rows.append([peer["name"], *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def reported(contender: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The settings of a contender that stand for it, one for each k."""
    return [point for point in contender["settings"] if point.get("reported")]


def scaled(contender: Mapping[str, Any], milliseconds: float, documents: int) -> float:
    """Milliseconds for all documents, of a contender that was timed on some."""
    return milliseconds * documents / float(contender["documents"])


def _row(contender: Mapping[str, Any], point: Mapping[str, Any], documents: int) -> list[str]:
    k, build, docs = point["k"], contender["build"], contender["documents"]
    name = contender["name"] if k == 10 else ""
    if k == 10 and docs < documents:
        name += f" (timed on {docs:,}, times scaled)"
    rate = next(one["queries_a_second"] for one in contender["all_cores"] if one["k"] == k) * docs / documents
    times = [f"{scaled(contender, point[name], documents):,.3g}" for name in ("p50_ms", "p95_ms")]
    recalls = [f"{point['recall@10']:.3f}", f"{point[f'recall@{k}']:.3f}"]
    sizes = [f"{build['bytes'] / docs:,.0f}", f"{contender['resident_bytes'] / docs:,.0f}"]
    took = f"{build['build_s'] * documents / docs:,.1f}" + (" (kept)" if build["kept"] else "")
    setting = ", ".join(f"{name} {value}" for name, value in point["setting"].items())
    once = [took, *sizes] if k == 10 else ["", "", ""]
    return [name, str(k), *recalls, *times, f"{rate:,.3g}", *once, setting or "exact"]
