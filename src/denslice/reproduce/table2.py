"""Table 2: effectiveness, size and latency of dense, lexical and joint models."""

from __future__ import annotations

from collections.abc import Sequence

from denslice.reproduce import flat, paper_figures
from denslice.reproduce.cells import PAPER_THETA, IndexSetting, Setting, dense_models, joint_models, lexical_models
from denslice.reproduce.collection import Collection
from denslice.reproduce.encoding import Encodings
from denslice.reproduce.table_page import (
    HEADS,
    Grid,
    Page,
    Results,
    candidates_note,
    markdown,
    measures,
    p_values,
)

TITLE = "Table 2: effectiveness, size and latency"
NOTE = (
    "“two stages” is the paper's method: stride slicing, a sliced query, θ = 0.1, and the 10,000 best lexical "
    "candidates rescored with every weight and with the dense score. “exact” is denslice's: a learned slicing, a full "
    "query, and the best of all documents. MB is the size of the whole index without texts. Latency is the time of "
    "one search for the top 1000 on one CPU core, without encoding the query: percentiles over 200 queries, the "
    "fastest of three runs each. The last three columns are the paper's figures **on MS MARCO dev**: MRR@10, "
    "gigabytes divided by 8,841,823 passages, and milliseconds on an NVIDIA Titan RTX, with Faiss for [CLS]. They "
    "stand only beside models with as many slices and dense dimensions as the paper's."
)
NO_FAISS = "The rows of Faiss are missing because it is not installed (`pip install faiss-cpu`)."


def settings(models: Sequence[Encodings], grid: Grid) -> list[Setting]:
    """Return every cell: dense search by denslice and by Faiss, lexical search, and hybrid search."""
    found = []
    for model in dense_models(models):
        dense = IndexSetting(model.name, "dense", None)
        found += [Setting(dense)] + [Setting(dense, engine="faiss")] * flat.is_there()
    for model in lexical_models(models):
        found += _both_ways(model, "lexical", grid.slices)
    for model in joint_models(models):
        found += _both_ways(model, "hybrid", grid.slices)
    return found


def page(models: Sequence[Encodings], grid: Grid, results: Results, collection: Collection) -> Page:
    """Return the table, and whether each joint model beats its parts."""
    by_name = {model.name: model for model in models}
    rows = []
    for setting, figures in results.items():
        model = by_name[setting.index.model]
        size = [f"{figures.bytes / 1e6:,.1f}", f"{figures.bytes / len(collection.doc_ids):,.0f}"]
        times = [f"{figures.p50_ms:.2f}", f"{figures.p95_ms:.2f}"]
        rows.append([*_names(model, setting), *measures(figures), *size, *times, *published(model, setting)])
    head = ["model", "mode", "M", "dimensions", "search", *HEADS, "MB", "bytes a passage", "ms p50", "ms p95"]
    head += ["paper: MRR@10", "bytes a passage", "ms"]
    notes = [NOTE, candidates_note(len(collection.doc_ids)), *_joint_against_parts(models, grid.slices, results)] + [
        NO_FAISS
    ] * (not flat.is_there())
    return Page("table2", TITLE, "\n\n".join([markdown(head, rows), *notes]), results)


def _both_ways(model: Encodings, mode: str, slices: Sequence[int]) -> list[Setting]:
    found = []
    for m in slices:
        index = IndexSetting(model.name, mode, m, "stride")
        found += [Setting(index, "sliced", PAPER_THETA, candidates_from="lexical"), _exact(model, mode, m)]
    return found


def _exact(model: Encodings, mode: str, slices: int) -> Setting:
    return Setting(IndexSetting(model.name, mode, slices, "learned"))


def _joint_against_parts(models: Sequence[Encodings], slices: Sequence[int], results: Results) -> list[str]:
    """Return a sentence for each part of each joint model: MRR@10 of exact hybrid search against the part alone."""
    most = max(slices)
    pairs = []
    for model in joint_models(models):
        both = _exact(model, "hybrid", most)
        parts = (_exact(model, "lexical", most), Setting(IndexSetting(model.name, "dense", None)))
        pairs += [(both, part) for part in parts]
    p = p_values(results, pairs)
    lines = []
    for both, part in pairs:
        one, other = (results[setting].means["RR@10"] for setting in (both, part))
        told = f"; paired t-test, Holm-corrected: p = {p[both, part]:.2g}" if (both, part) in p else ""
        alone = f"its {part.index.mode} part alone {other:.3f} ({one - other:+.3f}{told})"
        lines.append(f"{both.index.model}, M = {most}: MRR@10 {one:.3f}, {alone}.")
    return lines


def _names(model: Encodings, setting: Setting) -> list[str]:
    index = setting.index
    dimensions = "" if index.mode == "lexical" else str(model.facts.dimensions)
    slices = "" if index.slices is None else str(index.slices)
    search = "Faiss flat" if setting.engine == "faiss" else "exact" if setting.theta == 0 else "two stages"
    return [index.model, index.mode, slices, dimensions, search]


def published(model: Encodings, setting: Setting) -> list[str]:
    """Return the paper's figures if the setting is one of its own: two stages, or Faiss over [CLS], as wide as here."""
    heads = (model.facts.lexical, model.facts.dense)
    found = paper_figures.TABLE2.get((heads, setting.index.slices, model.facts.dimensions))
    is_its_own = setting.engine == "faiss" or setting.theta == PAPER_THETA
    if found is None or not is_its_own or (setting.index.mode == "lexical" and heads[1] != "none"):
        return ["", "", ""]
    return [f"{found.rr:.3f}", f"{found.gigabytes * 1e9 / paper_figures.PASSAGES:,.0f}", found.milliseconds]
