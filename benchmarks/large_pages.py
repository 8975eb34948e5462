"""The tables and the picture of docs/large-collections.md, from the lines in results/."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from contender_runs import table as contender_table
from denslice.reproduce.table_page import markdown
from journal import Line, cited, lines
from recall_plot import time_by_documents

SHOWN = {"hybrid": (10, 100), "dense": (10,), "lexical": (10, 1_000)}
CURVES = {  # of the picture: mode, k and pruning
    "hybrid, exact": ("hybrid", 10, 0.0),
    "hybrid, default": ("hybrid", 10, 0.3),
    "dense, default": ("dense", 10, 0.3),
    "words, exact": ("lexical", 10, 0.0),
}


def large_tables() -> dict[str, str]:
    """Return the tables by name."""
    texts, topics = _lines("texts")[-1], _topics()
    builds = {line["configuration"]["documents"]: line for line in lines("build_topics")}
    tables = {
        "texts": f"{markdown(*of_texts(texts))}\n\n{cited('large_collections', [texts])}",
        "topics": f"{markdown(*of_topics(topics))}\n\n{cited('large_collections', topics)}",
        "builds": f"{markdown(*of_builds(builds))}\n\n{cited('build_topics', list(builds.values()))}",
    }
    many = [line for line in lines("needles") if line["configuration"].get("notes", 5) > 5]
    tables["needles"] = f"{markdown(*of_needles(many[-1]))}\n\n{cited('needles', many[-1:])}"
    for name in ("hybrid_contenders", "word_contenders"):
        beside = lines(name)[-1]
        tables[name] = f"{contender_table(beside['figures'])}\n\n{cited(name, [beside])}"
    changed = lines("large_changes")[-1]
    tables["changes"] = f"{markdown(*of_changes(changed))}\n\n{cited('large_changes', [changed])}"
    return tables


def large_plots() -> dict[str, bytes]:
    """Return the picture by its file name."""
    return {"large_collections.svg": time_by_documents(curves(_topics()))}


def of_texts(line: Line) -> tuple[list[str], list[list[str]]]:
    """Return a row for each mode, k and pruning."""
    rows = []
    for mode, found in line["figures"].items():
        for one in found:
            k = one["k"]
            recalls = [f"{one[name]:.4f}" for name in ("recall@10", f"recall@{k}")]
            rows.append([mode, f"{k:,}", f"{one['pruning']:g}", *recalls, *_times(one)])
    return ["mode", "k", "pruning", "of the ten best", "of the k best", "p50 ms", "p95 ms"], rows


def of_topics(some: Sequence[Line]) -> tuple[list[str], list[list[str]]]:
    """Return a row for each mode and k, and columns for each collection: exact, and with the usual pruning."""
    head, rows = ["mode", "k"], {(mode, k): [mode, f"{k:,}"] for mode, ks in SHOWN.items() for k in ks}
    for line in some:
        documents, is_changed = line["configuration"]["documents"], line["configuration"]["changed"]
        head.append(f"{documents:,}{', changed' if is_changed else ''}")
        for (mode, k), row in rows.items():
            exact = _row(line, mode, k, 0.0)
            if mode == "lexical":
                row.append(f"{exact['p50_ms']:.2f}")
            else:
                near = _row(line, mode, k, 0.3)
                row.append(f"{near['p50_ms']:.2f} (.{round(1e4 * near['recall@10']):04d}) / {exact['p50_ms']:.1f}")
    return head, [[cell.replace("(.10000)", "(1)") for cell in row] for row in rows.values()]


def of_builds(by_documents: dict[int, Line]) -> tuple[list[str], list[list[str]]]:
    """Return a row for each number of documents."""
    rows = []
    for documents, line in sorted(by_documents.items()):
        found = line["figures"]
        memory = f"{found['peak_anonymous_bytes'] / 1e9:.1f}"
        rows.append([f"{documents:,}", f"{found['seconds']:,.0f}", f"{found['bytes'] / 1e9:.2f}", memory])
    return ["documents", "seconds", "GB on disk", "GB of memory at most"], rows


def of_changes(line: Line) -> tuple[list[str], list[list[str]]]:
    """Return a row for each step."""
    told = {
        "open": "open",
        "search": "first search of a process",
        "delete": "delete {changed:,} documents",
        "searched_after_delete": "first search after it",
        "add": "add {changed:,} documents",
        "searched_after_add": "first search after it",
        "upgrade": "upgrade, with nothing to do",
    }
    rows = [
        [about.format(**line["configuration"]), f"{line['figures'][step]['seconds']:.2f}"]
        for step, about in told.items()
    ]
    return ["step", "seconds"], rows


def of_needles(line: Line) -> tuple[list[str], list[list[str]]]:
    """Return a row for each kind of needle, and how many are found without and with pruning."""
    (found,), total = line["figures"].values(), line["configuration"]["needles"]
    _, pruning = line["configuration"]["prunings"]
    names = [name for name in found if f"{name}, pruning {pruning:g}" in found]
    rows = [[name, *(f"{found[one]} of {total}" for one in (name, f"{name}, pruning {pruning:g}"))] for name in names]
    return ["needle", "exact", f"pruning {pruning:g}"], rows


def curves(some: Sequence[Line]) -> dict[str, list[tuple[int, float]]]:
    """Return the places of each curve of the picture: documents and milliseconds."""
    whole = [line for line in some if not line["configuration"]["changed"]]
    return {
        name: [(line["configuration"]["documents"], _row(line, *asked)["p50_ms"]) for line in whole]
        for name, asked in CURVES.items()
    }


def _topics() -> list[Line]:
    """Return the newest run of each collection of topics, by size."""
    newest = {(line["configuration"]["documents"], line["configuration"]["changed"]): line for line in _lines("topics")}
    return [newest[size] for size in sorted(newest)]


def _lines(source: str) -> list[Line]:
    return [line for line in lines("large_collections") if line["configuration"].get("source") == source]


def _row(line: Line, mode: str, k: int, pruning: float) -> dict[str, Any]:
    return next(one for one in line["figures"][mode] if (one["k"], one["pruning"]) == (k, pruning))


def _times(one: dict[str, Any]) -> list[str]:
    return [f"{one[name]:.2f}" for name in ("p50_ms", "p95_ms")]
