"""The lines of `denslice bench products` as Markdown tables: what was measured, and what is left after kills."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from denslice.bench.product_checks import ASKED
from denslice.reproduce.table_page import markdown

ProductLine = Mapping[str, Any]
QUIET = 0.9  # share of a core from which times count
UNKNOWN = "–"
SAME = ("commit", "product", "configuration", "hardware")  # of a line that is there already
HEAD = (
    "", "ranks by", "first answer, s", "lines of code", "documents/s", "{judged}", "p50, p95 ms",
    "with a filter, ms", "memory, GB: building, searching", "disk, MB",
)  # fmt: skip
TRUST = ("", "documents lost, twice (kills)", "changes seen at once", "explanation")


def product_table(lines: Sequence[ProductLine]) -> str:
    """Return a row for each product, and one for MiniLM, whose share is in the rows of products that need it."""
    asked = lines[0]["configuration"]
    judged = asked["judged"]
    head = [column for name in HEAD for column in _columns(name, judged)]
    rows = [_row(line, judged) for line in lines]
    needing = [line for line in lines if line["figures"]["needs_minilm"]]
    return markdown(head, [*rows, *([_minilm_row(needing[-1], len(head))] if needing else [])])


def trust_table(lines: Sequence[ProductLine]) -> str:
    """Return for each product what kills did to it, which changes the next search sees, and what explains a hit."""
    found = [(line["product"], line["figures"]) for line in lines]
    return markdown(TRUST, [[name, _kills(one["kills"]), _seen(one["seen"]), one["explains"]] for name, one in found])


def has_line(path: Path, line: ProductLine) -> bool:
    """Return whether a file of results has a line of the same product, commit, settings and hardware."""
    known = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return any(all(json.loads(one).get(name) == line[name] for name in SAME) for one in known)


def _columns(name: str, judged: Sequence[str]) -> list[str]:
    return [f"nDCG@10 {one}" for one in judged] if name == "{judged}" else [name]


def is_quiet(line: ProductLine) -> bool:
    """Return whether the cores were free when a product, and MiniLM if it needs that, was timed."""
    return all(part["core_share"] >= QUIET for part in (line["figures"], line["minilm"]) if part)


def _row(line: ProductLine, judged: Sequence[str]) -> list[str]:
    found, memory = line["figures"], ("building_bytes", "searching_bytes")
    first, rate, *searches = _timed_cells(line) if is_quiet(line) else [UNKNOWN] * 4
    return [
        line["product"],
        _ranks_by(found),
        first,
        str(found["lines"]),
        rate,
        *(f"{found['ndcg@10'][name]:.3f}" for name in judged),
        *searches,
        ", ".join(f"{found[name] / 1e9:.2f}" for name in memory) + (" + MiniLM" if line["minilm"] else ""),
        f"{found['disk_bytes'] / 1e6:,.0f}",
    ]


def _ranks_by(found: Mapping[str, Any]) -> str:
    """Return how a product ranks, and how often its approximate search missed a planted document."""
    missed = len(found.get("missed", ()))  # lines of products that missed none may leave it out
    return str(found["search_kind"]) + (f" ({missed} of {ASKED} planted texts not first)" if missed else "")


def first_seconds(line: ProductLine) -> float:
    """Return the seconds to the first answer, with those of MiniLM for a product that needs it."""
    minilm = line["minilm"]["seconds"] if line["minilm"] else 0.0
    return float(line["figures"]["first_seconds"] + minilm)


def _timed_cells(line: ProductLine) -> list[str]:
    """Return the first answer, documents a second, and searches without and with a filter."""
    found, minilm, seconds = line["figures"], line["minilm"], first_seconds(line)
    first = f"{seconds:,.0f}" + (f" ({found['first_seconds']:,.0f} + MiniLM)" if minilm else "")
    searches = [_times(found[name], line["configuration"]["k"]) for name in ("search", "filtered")]
    return [first, f"{line['configuration']['documents'] / seconds:,.0f}", *searches]


def _times(found: Mapping[str, Any], k: int) -> str:
    """Return p50 and p95, and how many documents were found in the mean if they were fewer than asked for."""
    fewer = f" ({found['found']:.1f} of {k} found)" if round(found["found"], 1) < k else ""
    return f"{found['p50_ms']:.1f}, {found['p95_ms']:.1f}{fewer}"


def _kills(found: Mapping[str, Any] | None) -> str:
    """Return how many documents were lost, or twice there, and what stays so when everything is added again."""
    if found is None:
        return "not measured"
    told = f"{found['lost']:,}, {found['twice']:,} ({found['kills']})"
    if found["lost_for_good"] or found["twice_then"]:
        told += f"; added again: {found['lost_for_good']:,}, {found['twice_then']:,}"
    return told + (f"; {found['unopened']} of {found['kills']} did not open" if found["unopened"] else "")


def _seen(seen: Mapping[str, bool]) -> str:
    missed = [f"{name}s" for name, is_seen in seen.items() if not is_seen]
    return f"not {', '.join(missed)}" if missed else "adds, deletes, updates"


def _minilm_row(line: ProductLine, width: int) -> list[str]:
    one, memory = line["minilm"], width - 2
    cells = {0: "MiniLM alone", memory: f"{one['peak_bytes'] / 1e9:.2f}"}
    if is_quiet(line):
        query = f"{one['query']['p50_ms']:.1f}, {one['query']['p95_ms']:.1f}"
        cells |= {2: f"{one['seconds']:,.0f}", 4: f"{one['documents_a_second']:,.0f}", memory - 2: query}
    return [cells.get(at, "") for at in range(width)]
