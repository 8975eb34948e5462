"""Table 3: which tokens share a slice. The paper's three slicings and the learned one, with sliced and full queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from denslice.reproduce import paper_figures
from denslice.reproduce.cells import Figures, Setting, as_in_paper, lexical_models, with_full_query
from denslice.reproduce.collection import Collection
from denslice.reproduce.encoding import Encodings
from denslice.reproduce.table_page import HEADS, Grid, Page, Results, kept, markdown, measures, p_values

SLICINGS = ("stride", "contiguous", "random", "learned")
SEEDS = (0, 1, 2)  # of random slicings, whose figures are means over them
TITLE = "Table 3: which tokens share a slice"
NOTE = (
    "“of stride” compares MRR@10 with stride slicing and a sliced query, the paper's default, at the same M; \\* "
    "marks a difference with p < 0.05 (paired t-test, Holm-corrected over each model's rows). “weights lost” is the "
    "share of the documents' weights that lost their slice to a larger one. Random slicings are means over three "
    "seeds. The last two columns are the paper's figures for DSR-SPLADE **on MS MARCO dev**."
)


def settings(models: Sequence[Encodings], grid: Grid) -> list[Setting]:
    """Return every cell, random slicings with each seed."""
    return [
        _seeded(setting, seed)
        for model in lexical_models(models)
        for m in grid.slices
        for setting in _ways(model, m)
        for seed in (SEEDS if setting.index.slicing == "random" else SEEDS[:1])
    ]


def page(models: Sequence[Encodings], grid: Grid, results: Results, collection: Collection) -> Page:
    """Return the table."""
    means = {setting: _mean_over_seeds(setting, results) for setting in results if setting.index.seed == 0}
    rows = []
    for model in lexical_models(models):
        pairs = [(way, as_in_paper(model, m)) for m in grid.slices for way in _ways(model, m)]
        p = p_values(means, [(way, reference) for way, reference in pairs if way != reference])
        for way, reference in pairs:
            figures = means[way]
            share = "" if way == reference else kept(means, (way, reference), p)
            names = [model.name, str(way.index.slices), way.index.slicing, way.query]
            rows.append([*names, *measures(figures), share, f"{100 * figures.lost:.1f} %", *_published(model, way)])
    head = ["model", "M", "slicing", "query", *HEADS, "of stride", "weights lost", "paper: MRR@10", "R@1000"]
    return Page("table3", TITLE, f"{markdown(head, rows)}\n\n{NOTE}", results)


def _ways(model: Encodings, slices: int) -> list[Setting]:
    """Return each slicing with a sliced query, the paper's default first, then each with a full query."""
    sliced = [as_in_paper(model, slices, slicing) for slicing in SLICINGS]
    return sliced + [with_full_query(model, slices, slicing) for slicing in SLICINGS]


def _seeded(setting: Setting, seed: int) -> Setting:
    return replace(setting, index=replace(setting.index, seed=seed))


def _mean_over_seeds(setting: Setting, results: Results) -> Figures:
    """Return the setting's figures; of a random slicing, means over the seeds, with the first seed's times and size."""
    if setting.index.slicing != "random":
        return results[setting]
    several = [results[_seeded(setting, seed)] for seed in SEEDS]
    first = several[0]
    return replace(
        first,
        means={name: _mean([one.means[name] for one in several]) for name in first.means},
        per_query={
            name: {query: _mean([one.per_query[name][query] for one in several]) for query in values}
            for name, values in first.per_query.items()
        },
        lost=_mean([one.lost for one in several]),
    )


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _published(model: Encodings, setting: Setting) -> list[str]:
    found = paper_figures.TABLE3.get(setting.index.slicing)
    is_splade = (model.facts.lexical, model.facts.dense) == paper_figures.SPLADE
    if found is None or not is_splade or setting.index.slices != 768 or setting.query != "sliced":
        return ["", ""]
    return [f"{found.rr:.3f}", f"{found.recall:.3f}"]
