"""Tables as Markdown, and what stands beside them on disk: the JSON, with the command, commit and machine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from denslice.evaluate.comparison import corrected_p
from denslice.provenance import provenance
from denslice.reproduce.cell_settings import Setting
from denslice.reproduce.cells import Figures
from denslice.reproduce.collection import Collection
from denslice.reproduce.encoding import Encodings
from denslice.store.files import replace_file

PACKAGES = ("numpy", "scipy", "numba", "ir-measures", "faiss-cpu", "matplotlib")
SIGNIFICANT = 0.05
HEADS = ["MRR@10", "R@1000", "nDCG@10"]
Results = Mapping[Setting, Figures]
Pair = tuple[Setting, Setting]  # a setting, and the one it is compared with


@dataclass(frozen=True)
class Grid:
    """What is varied: numbers of slices in the tables, θ and candidates in the figure."""

    slices: list[int]
    thetas: list[float]
    candidates: list[int]


@dataclass(frozen=True)
class Page:
    """What a command makes: its name, the table, the figures behind it, and plots by file name."""

    name: str  # table1, …
    text: str  # Markdown: the table and what must be said about it
    results: Results
    plots: Mapping[str, bytes] = field(default_factory=dict)


def measures(figures: Figures) -> list[str]:
    """The cells of HEADS."""
    return [f"{figures.means[name]:.3f}" for name in ("RR@10", "R@1000", "nDCG@10")]


def p_values(results: Results, pairs: Sequence[Pair], measure: str = "RR@10") -> dict[Pair, float]:
    """p of a paired t-test over the queries for each pair, Holm-corrected over all; empty with a single query."""
    values = {setting: results[setting].per_query[measure] for pair in pairs for setting in pair}
    return corrected_p({(one, other): (values[one], values[other]) for one, other in pairs})


def kept(results: Results, pair: Pair, p: Mapping[Pair, float]) -> str:
    """How much of the other setting's MRR@10 one reaches, in percent, with a star where they differ significantly."""
    one, other = (results[setting].means["RR@10"] for setting in pair)
    star = "\\*" if p.get(pair, 1.0) < SIGNIFICANT else ""
    return f"{100 * one / other:.1f} %{star}" if other else "–"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write(to: Path, page: Page, collection: Collection, models: Sequence[Encodings], command: str) -> None:
    """Writes NAME.md, NAME.json and the plots."""
    to.mkdir(parents=True, exist_ok=True)
    told = json.dumps(as_json(page, collection, models, command), indent=1, ensure_ascii=False, allow_nan=False)
    texts = {f"{page.name}.md": f"{page.text}\n\n{source(page, collection, command)}", f"{page.name}.json": told}
    files = {name: f"{text}\n".encode() for name, text in texts.items()} | dict(page.plots)
    for name, contents in files.items():
        replace_file(to / name, contents)


def source(page: Page, collection: Collection, command: str) -> str:
    """Where the table comes from, in a few lines of Markdown."""
    commits = sorted({figures.commit for figures in page.results.values()})
    made = provenance(())
    on = f"{made['hardware']['cpu']}, {made['hardware']['cores']} cores"
    counted = f"{len(collection.doc_ids):,} documents, {len(collection.queries):,} queries"
    return f"`{command}`\n\n{collection.name}: {counted}. Commit {', '.join(commits)}, {on}."


def as_json(page: Page, collection: Collection, models: Sequence[Encodings], command: str) -> dict[str, Any]:
    """Everything behind a page."""
    about = {"name": collection.name, "docs": len(collection.doc_ids), "queries": len(collection.queries)}
    return {
        "name": page.name,
        "command": command,
        **provenance(PACKAGES),
        "collection": about | {"fingerprint": collection.fingerprint},
        "models": {model.name: asdict(model.facts) for model in models},
        "cells": [setting.to_json() | figures.to_json() for setting, figures in page.results.items()],
    }
