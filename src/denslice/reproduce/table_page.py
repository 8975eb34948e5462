"""Tables as Markdown, and the files of a reproduction: one page with every table, and the figures of each as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from denslice.evaluate.comparison import corrected_p
from denslice.provenance import provenance
from denslice.reproduce.cells import PAPER_CANDIDATES, Figures, Setting
from denslice.reproduce.collection import Collection
from denslice.reproduce.encoding import Encodings
from denslice.reproduce.paper_figures import PASSAGES
from denslice.store.files import replace_file

PAGE = "tables.md"
END = "<!-- /table -->\n"
ORDER = ("table1", "table2", "table3", "figure3", "collisions", "terms")  # of the tables on the page
PACKAGES = ("numpy", "scipy", "numba", "ir-measures", "faiss-cpu", "matplotlib")
SIGNIFICANT = 0.05
HEADS = ["MRR@10", "R@1000", "nDCG@10"]
Results = Mapping[Setting, Figures]
Pair = tuple[Setting, Setting]  # a setting, and the one it is compared with


@dataclass(frozen=True)
class Grid:
    """The values that vary: numbers of slices in the tables, θ and candidates in the figure."""

    slices: list[int]
    thetas: list[float]
    candidates: list[int]


@dataclass(frozen=True)
class Page:
    """The result of a command: a table or figure, the measurements behind it, and plots by file name."""

    name: str  # table1, …
    title: str
    text: str  # the table and its notes, as Markdown
    results: Results
    plots: Mapping[str, bytes] = field(default_factory=dict)
    rows: Sequence[Mapping[str, Any]] = ()  # figures of another kind, as JSON objects


def measures(figures: Figures) -> list[str]:
    """Return the cells under HEADS."""
    return [f"{figures.means[name]:.3f}" for name in ("RR@10", "R@1000", "nDCG@10")]


def p_values(results: Results, pairs: Sequence[Pair], measure: str = "RR@10") -> dict[Pair, float]:
    """Return p of a paired t-test over the queries for each pair, Holm-corrected; empty if there is one query."""
    values = {setting: results[setting].per_query[measure] for pair in pairs for setting in pair}
    return corrected_p({(one, other): (values[one], values[other]) for one, other in pairs})


def kept(results: Results, pair: Pair, p: Mapping[Pair, float]) -> str:
    """Return the share of the other setting's MRR@10 that one reaches, with a star if they differ significantly."""
    one, other = (results[setting].means["RR@10"] for setting in pair)
    star = "\\*" if p.get(pair, 1.0) < SIGNIFICANT else ""
    return f"{100 * one / other:.1f} %{star}" if other else "–"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def candidates_note(docs: int, candidates: int = PAPER_CANDIDATES) -> str:
    """Return the sentence that compares the share of the collection that is rescored with the paper's."""
    if docs <= candidates:
        return (
            f"**The collection has {docs:,} documents, so {candidates:,} candidates are all of them: every document "
            "with a token above θ is rescored, and θ can lose next to nothing.**"
        )
    share, paper = 100 * candidates / docs, 100 * PAPER_CANDIDATES / PASSAGES
    return (
        f"{candidates:,} candidates are {share:.3g} % of these {docs:,} documents; the paper's were {paper:.2f} % of "
        f"MS MARCO's passages, which would be {paper_share(docs):,} here."
    )


def paper_share(docs: int) -> int:
    """Return how many candidates are as large a share of the collection as the paper's 10,000 of MS MARCO's."""
    return max(1, round(PAPER_CANDIDATES * docs / PASSAGES))


def refresh(page: Path, tables: Mapping[str, str]) -> None:
    """Put each table of a page between its marks, `<!-- table:NAME -->` and `<!-- /table -->`, or at the page's end."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    for name, table in tables.items():
        mark = f"<!-- table:{name} -->\n"
        before, _, rest = text.partition(mark)
        text = f"{before}{mark}{table}\n{END}{rest.partition(END)[2]}"
    replace_file(page, text.encode())


def write(to: Path, page: Page, collection: Collection, models: Sequence[Encodings], command: str) -> None:
    """Write NAME.json and the plots, and put the table into the folder's page."""
    to.mkdir(parents=True, exist_ok=True)
    measured = json.dumps(as_json(page, collection, models, command), ensure_ascii=False, allow_nan=False)
    for name, contents in {f"{page.name}.json": f"{measured}\n".encode(), **page.plots}.items():
        replace_file(to / name, contents)
    if not (to / PAGE).exists():
        marks = "\n".join(f"<!-- table:{name} -->\n{END}" for name in ORDER)
        replace_file(to / PAGE, f"# The paper's tables on {collection.name}\n\n{marks}".encode())
    refresh(to / PAGE, {page.name: f"## {page.title}\n\n{page.text}\n\n{source(page, collection, command)}"})


def source(page: Page, collection: Collection, command: str) -> str:
    """Return where the table comes from: the command, the collection, the commits and the machine."""
    made = provenance(())
    commits = sorted({figures.commit for figures in page.results.values()}) or [made["commit"]]
    cores = made["hardware"]["cores"]
    on = f"{made['hardware']['cpu']}, {cores} core{'s' * (cores != 1)}"
    counted = f"{len(collection.doc_ids):,} documents, {len(collection.queries):,} queries"
    return f"`{command}`\n\n{collection.name}: {counted}. Commit {', '.join(commits)}, {on}."


def as_json(page: Page, collection: Collection, models: Sequence[Encodings], command: str) -> dict[str, Any]:
    """Return everything behind a table as a JSON object."""
    about = {"name": collection.name, "docs": len(collection.doc_ids), "queries": len(collection.queries)}
    return {
        "name": page.name,
        "command": command,
        **provenance(PACKAGES),
        "collection": about | {"fingerprint": collection.fingerprint},
        "models": {model.name: asdict(model.facts) for model in models},
        "cells": [setting.to_json() | figures.to_json() for setting, figures in page.results.items()],
        "rows": list(page.rows),
    }
