"""Figure 3: effectiveness and latency by θ and number of candidates, for stage one alone and with reranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np

from denslice.densify import split_by_slice
from denslice.reproduce.cells import PAPER_THETA, IndexSetting, K, Setting, lexical_models
from denslice.reproduce.collection import Collection
from denslice.reproduce.encoding import Encodings
from denslice.reproduce.figure3_plot import Line, Point, drawn
from denslice.reproduce.table_page import Grid, Page, Results, candidates_note, markdown
from denslice.search.query import STRONGEST
from denslice.slicing import Slicing

HEAD = ["model", "θ", "at eight", "candidates", "MRR@10", "R@1000", "ms p50"]
HEAD += ["stage one alone: MRR@10", "R@1000", "ms p50"]
TITLE = "Figure 3: θ and the number of candidates"
NOTE = (
    "The slicing is stride and the query is sliced, as in the paper. Stage one leaves out query weights of at most θ, "
    "but uses at least eight: “at eight” counts the queries that keep a weight of at most θ by this rule. The "
    "candidates are then rescored with every weight. θ = 0 is exact. Latency is the time of one search on one CPU core "
    "for the top 1000, or for as many as there are candidates, where R@1000 is left out: p50 over 200 queries, the "
    "fastest of three runs each. Stage one alone ranks by the rounded scores of the postings, which are too high by at "
    "most 1/255 of the highest score."
)


def settings(models: Sequence[Encodings], grid: Grid) -> list[Setting]:
    """Return every point."""
    return [
        setting
        for model in lexical_models(models)
        for setting in (*_first_stage(model, grid), *_reranked(model, grid), *_varied(model, grid))
    ]


def page(models: Sequence[Encodings], grid: Grid, results: Results, collection: Collection) -> Page:
    """Return a plot for each model, and every point in a table."""
    plots: dict[str, bytes] = {}
    rows, images, kept = [], [], []
    for model in lexical_models(models):
        title = f"{model.name} on {collection.name}, {max(grid.slices)} slices"
        name = f"figure3-{model.name}"
        plots[f"{name}.svg"] = drawn(title, *_lines(model, grid, results))
        images.append(f"![MRR@10 and R@1000 of {title} against latency, for values of θ and of candidates]({name}.svg)")
        counts = {theta: at_eight(model, max(grid.slices), theta) for theta in grid.thetas}
        rows += _rows(model, grid, results, counts)
        kept += [{"model": model.name, "theta": theta, "at_eight": count} for theta, count in counts.items()]
    notes = [NOTE, candidates_note(len(collection.doc_ids), max(grid.candidates))]
    text = "\n\n".join([*images, markdown(HEAD, rows), *notes])
    return Page("figure3", TITLE, text, results, plots, kept)


def _index(model: Encodings, grid: Grid) -> IndexSetting:
    return IndexSetting(model.name, "lexical", max(grid.slices))


def _first_stage(model: Encodings, grid: Grid) -> list[Setting]:
    return [Setting(_index(model, grid), "sliced", theta, rerank=False) for theta in grid.thetas]


def _reranked(model: Encodings, grid: Grid) -> list[Setting]:
    """Return every θ with the most candidates, and those above 0 with the fewest: θ = 0 needs no candidates."""
    most, fewest = max(grid.candidates), min(grid.candidates)
    pairs = [(theta, most) for theta in grid.thetas]
    pairs += [(theta, fewest) for theta in grid.thetas if theta > 0 and fewest < most]
    return [Setting(_index(model, grid), "sliced", *pair) for pair in pairs]


def _varied(model: Encodings, grid: Grid) -> list[Setting]:
    """Return every number of candidates at three θ: the paper's or the next above it, a middle one and the largest."""
    above = sorted(theta for theta in grid.thetas if theta >= PAPER_THETA)
    thetas = sorted({above[0], above[len(above) // 2], above[-1]}) if above else []
    return [Setting(_index(model, grid), "sliced", theta, some) for theta in thetas for some in sorted(grid.candidates)]


def _lines(model: Encodings, grid: Grid, results: Results) -> tuple[list[Line], list[Line]]:
    """Return the lines over θ, and those over candidates, one for each θ."""
    over_theta = [
        Line("stage one alone", [_point(s, results, f"{s.theta:g}") for s in _first_stage(model, grid)]),
        *(
            Line(f"{some:,} reranked", [_point(s, results, f"{s.theta:g}") for s in group])
            for some, group in groupby(_reranked(model, grid), key=lambda setting: setting.candidates)
        ),
    ]
    varied = _varied(model, grid)
    over_candidates = [
        Line(f"θ = {theta:g}", [_point(s, results, f"{s.candidates:,}") for s in varied if s.theta == theta])
        for theta in dict.fromkeys(setting.theta for setting in varied)
    ]
    return over_theta, over_candidates


def _point(setting: Setting, results: Results, label: str) -> Point:
    figures = results[setting]
    recall = figures.means["R@1000"] if setting.depth == K else None
    return Point(figures.p50_ms, figures.means["RR@10"], recall, label)


def _rows(model: Encodings, grid: Grid, results: Results, counts: Mapping[float, int]) -> list[list[str]]:
    alone = {setting.theta: setting for setting in _first_stage(model, grid)}
    settings = dict.fromkeys([*_reranked(model, grid), *_varied(model, grid)])
    return [
        [model.name, f"{s.theta:g}", str(counts[s.theta]), f"{s.candidates:,}", *_cells([s, alone[s.theta]], results)]
        for s in sorted(settings, key=lambda setting: (setting.theta, setting.candidates))
    ]


def at_eight(model: Encodings, slices: int, theta: float) -> int:
    """Return how many sliced queries keep weights of at most θ in stage one, because they have too few above it."""
    slicing = Slicing.stride(model.facts.vocab, slices, model.facts.skip)
    queries = split_by_slice(model.queries().lexical, slicing)[0]
    above = (queries > theta).sum(axis=1)
    return int(((above < STRONGEST) & (above < np.diff(queries.indptr))).sum())


def _cells(settings: Sequence[Setting], results: Results) -> list[str]:
    cells = []
    for setting in settings:
        figures = results[setting]
        recall = f"{figures.means['R@1000']:.3f}" if setting.depth == K else "–"
        cells += [f"{figures.means['RR@10']:.3f}", recall, f"{figures.p50_ms:.2f}"]
    return cells
