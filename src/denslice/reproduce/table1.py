"""Table 1: what densifying costs, by number of slices."""

from __future__ import annotations

from collections.abc import Sequence

from denslice.reproduce import paper_figures
from denslice.reproduce.cells import Setting, as_in_paper, lexical_models, whole, with_full_query
from denslice.reproduce.collection import Collection
from denslice.reproduce.encoding import Encodings
from denslice.reproduce.table_page import HEADS, Grid, Page, Results, kept, markdown, measures, p_values

TITLE = "Table 1: what densifying costs"
NOTE = (
    "M is the number of slices; “all” keeps every weight, as an inverted index does. Rows with a sliced query and "
    "stride slicing are the paper's method; rows with a full query and a slicing learned from the documents are "
    "denslice's. The last three columns are the paper's figures **on MS MARCO dev**, another collection with other "
    "models: compare the share that is kept, not the scores. For SPLADE the paper has no share, as its row with all "
    "weights is of another SPLADE. \\* marks a difference from all weights with p < 0.05 "
    "(paired t-test on MRR@10, Holm-corrected over each model's rows)."
)


def settings(models: Sequence[Encodings], grid: Grid) -> list[Setting]:
    """Return every cell."""
    return [setting for model in lexical_models(models) for setting in (whole(model), *_sliced(model, grid.slices))]


def page(models: Sequence[Encodings], grid: Grid, results: Results, collection: Collection) -> Page:
    """Return the table."""
    rows = []
    for model in lexical_models(models):
        everything = whole(model)
        p = p_values(results, [(one, everything) for one in _sliced(model, grid.slices)])
        for setting in (everything, *_sliced(model, grid.slices)):
            share = "" if setting == everything else kept(results, (setting, everything), p)
            rows.append([*_names(setting), *measures(results[setting]), share, *_published(model, setting)])
    head = ["model", "M", "slicing", "query", *HEADS, "of all", "paper: MRR@10", "R@1000", "of all"]
    return Page("table1", TITLE, f"{markdown(head, rows)}\n\n{NOTE}", results)


def _sliced(model: Encodings, slices: Sequence[int]) -> list[Setting]:
    return [setting for m in slices for setting in (as_in_paper(model, m), with_full_query(model, m))]


def _names(setting: Setting) -> list[str]:
    index = setting.index
    if index.slices is None:
        return [index.model, "all", "–", "full"]
    return [index.model, str(index.slices), index.slicing, setting.query]


def _published(model: Encodings, setting: Setting) -> list[str]:
    """Return the paper's figures for these heads and slices, if it has any."""
    heads = (model.facts.lexical, model.facts.dense)
    found = paper_figures.TABLE1.get((heads, setting.index.slices))
    if found is None or setting.index.slicing != "stride":
        return ["", "", ""]
    has_share = setting.index.slices is not None and heads == paper_figures.UNICOIL
    share = f"{100 * found.rr / paper_figures.TABLE1[heads, None].rr:.1f} %" if has_share else ""
    return [f"{found.rr:.3f}", f"{found.recall:.3f}", share]
