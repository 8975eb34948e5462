"""The tables of docs/reproduction.md, from the JSON files that `denslice reproduce` wrote to docs/reproduction/."""

from __future__ import annotations

import json
from typing import Any

from denslice.reproduce.collided_terms import LIMITS, FallenQuery, IdfInDocs
from denslice.reproduce.paper_figures import TABLE1, UNICOIL
from denslice.reproduce.table_page import markdown
from denslice.reproduce.term_page import EXAMPLE_HEAD, LOST_HEAD, between, example_rows, gained
from journal import ROOT

COLLECTIONS = ("acl-title-abstract", "medquad")
MODEL = "splade"  # of the figure
SLICES = (768, 256, 128)
Told = dict[str, Any]


def reproduction_tables() -> dict[str, str]:
    """Return the tables by name."""
    return {
        "losses": losses(),
        "theta": theta(),
        "collisions": collisions(),
        "terms": terms(),
        "weighed": weighed(),
        "fallen": fallen(),
    }


def losses() -> str:
    """Return the share of MRR@10 that the paper's method loses by number of slices, beside the paper's own figures."""
    head = ["model", "collection", *(f"{slices} slices" for slices in SLICES), f"weights lost, {SLICES[-1]} slices"]
    whole = TABLE1[UNICOIL, None].rr
    rows = [["unicoil", "MS MARCO, the paper", *(_percent(1 - TABLE1[UNICOIL, m].rr / whole) for m in SLICES), ""]]
    for model in ("unicoil", "splade", "bm25"):
        for name in COLLECTIONS:
            cells = {one["slices"]: one for one in _told(name, "table1")["cells"] if _is_paper_method(one, model)}
            whole = cells[None]["means"]["RR@10"]
            lost = [_percent(1 - cells[m]["means"]["RR@10"] / whole) for m in SLICES]
            rows.append([model, name, *lost, f"{100 * cells[SLICES[-1]]['lost']:.0f} %"])
    return markdown(head, rows)


def theta() -> str:
    """Return MRR@10 of the two stages by candidates, at each θ that was measured with every number of candidates."""
    rows = []
    for name in COLLECTIONS:
        told = _told(name, "figure3")
        docs, cells = told["collection"]["docs"], [cell for cell in told["cells"] if cell["model"] == MODEL]
        found = {(cell["theta"], cell["candidates"]): cell["means"]["RR@10"] for cell in cells if cell["rerank"]}
        alone = {cell["theta"]: cell["means"]["RR@10"] for cell in cells if not cell["rerank"]}
        numbers = sorted({candidates for at, candidates in found if at > 0})
        for at in sorted(at for at in alone if at > 0 and all((at, some) in found for some in numbers)):
            rule = next(
                (one["at_eight"] for one in told.get("rows", ()) if (one["model"], one["theta"]) == (MODEL, at)), ""
            )
            cells_of = [f"{some:,} ({100 * some / docs:.2g} %): {found[at, some]:.3f}" for some in numbers]
            exact = next(value for (theta, _), value in found.items() if theta == 0)
            rows.append([name, f"{at:g}", str(rule), f"{exact:.3f}", f"{alone[at]:.3f}", "; ".join(cells_of)])
    return markdown(["collection", "θ", "queries at eight", "exact", "stage one alone", "candidates rescored"], rows)


def collisions() -> str:
    """Return what the paper's slicing takes from the weights and from the scores of each model."""
    rows = []
    for name in COLLECTIONS:
        for one in _told(name, "collisions")["rows"]:
            if one["query"] == "sliced":
                shares = [one["weights"], one["asked"], one["score"], one["rivals"], 1 - one["rr"] / one["rr_all"]]
                outcome = [f"{100 * one['score_fallen']:.0f} %", f"{100 * one['score_others']:.0f} %"]
                rows.append([one["model"], name, str(one["slices"]), *(f"{100 * s:.1f} %" for s in shares), *outcome])
    head = [
        "model",
        "collection",
        "M",
        "weights lost",
        "asked weights lost",
        "relevant score lost",
        "rivals' score lost",
    ]
    return markdown([*head, "MRR@10 lost", "score lost where it fell", "elsewhere"], rows)


def terms() -> str:
    """Return how many terms of BM25's queries are lost, by their share of the score."""
    rows = []
    for name in COLLECTIONS:
        found = {one["slices"]: one["classes"] for one in _told(name, "terms")["rows"]}
        for at, upper in enumerate([None, *LIMITS[:-1]]):
            some = [found[slices][at] for slices in SLICES]
            lost = [_percent(one["lost"] / one["terms"]) for one in some]
            rows.append([name, between(some[0]["least"], upper), f"{some[0]['terms']:,}", *lost])
    return markdown(["collection", "share of the score", "terms", *(f"lost, {m} slices" for m in SLICES)], rows)


def weighed() -> str:
    """Return what BM25 loses with its idf in the query and in the documents, and the difference."""
    rows = []
    for name in COLLECTIONS:
        for one in _told(name, "terms")["rows"]:
            idf = IdfInDocs(**one["idf_in_docs"])
            rows.append([name, str(one["slices"]), _percent(one["rr_lost"]), _percent(idf.rr_lost), gained(idf)])
    return markdown(["collection", *LOST_HEAD[1:]], rows)


def fallen() -> str:
    """Return the queries that fall most with the fewest slices: two of each collection."""
    rows = []
    for name in COLLECTIONS:
        [found] = (one for one in _told(name, "terms")["rows"] if one["slices"] == SLICES[-1])
        rows += example_rows([FallenQuery.of(one) for one in found["examples"][:2]])
    return markdown(EXAMPLE_HEAD, rows)


def _told(collection: str, name: str) -> Told:
    told: Told = json.loads((ROOT / "docs" / "reproduction" / collection / f"{name}.json").read_text(encoding="utf-8"))
    return told


def _is_paper_method(cell: Told, model: str) -> bool:
    """Return whether a cell of table 1 is of a model without slices, or sliced as in the paper."""
    return cell["model"] == model and (
        cell["slices"] is None or (cell["slicing"], cell["query"]) == ("stride", "sliced")
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
