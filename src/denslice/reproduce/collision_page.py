"""Collisions as a table and a plot: MRR@10 lost beside the weights and the scores that are lost."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from denslice.errors import InputError, MissingExtraError
from denslice.reproduce.cells import lexical_models
from denslice.reproduce.collection import Collection
from denslice.reproduce.collisions import Collisions, measured, ways
from denslice.reproduce.encoding import Encodings, Progress
from denslice.reproduce.figure3_plot import INK, MARKERS, STYLE
from denslice.reproduce.ranked_vectors import RIVALS
from denslice.reproduce.table_page import Grid, Page, markdown

TITLE = "Collisions: which lost weights matter"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")  # of models
HEAD = ["model", "M", "slicing", "query", "weights lost", "asked weights lost", "score lost: relevant", "rivals"]
HEAD += ["heaviest lost token", "MRR@10", "lost", "queries that fell, rose", "score lost where it fell", "elsewhere"]
NOTE = (
    "Tokens that share a slice collide: it keeps one of them. “weights lost” counts all weights of all documents. The "
    "next columns look at one document for each query, the relevant one that ranks best with all weights: “asked "
    "weights” are its weights on tokens that the query has too, and “score lost” is the share of its score that is "
    f"gone, also for the {RIVALS} best documents that are not relevant. “heaviest lost token” is the largest share of "
    "the score that one lost token had. Shares of scores are means over queries. A query fell if its reciprocal rank "
    "(to 10) is lower than with all weights. Everything is computed from the vectors, without an index."
)


def count(models: Sequence[Encodings], grid: Grid) -> int:
    """Return how many slicings are compared."""
    found = sum(len(ways(model, grid.slices)) for model in lexical_models(models))
    if not found:
        raise InputError("collisions needs a model with a lexical part, and none was named")
    return found


def page(models: Sequence[Encodings], grid: Grid, collection: Collection, progress: Progress) -> Page:
    """Measure the collisions and return them as a table and a plot."""
    found = measured(collection, models, grid.slices, progress)
    image = f"![MRR@10 lost on {collection.name} against weights lost and against score lost](collisions.svg)"
    text = "\n\n".join([image, markdown(HEAD, [_row(one) for one in found]), NOTE])
    plot = _drawn(f"What slicing costs on {collection.name}", found)
    return Page("collisions", TITLE, text, {}, {"collisions.svg": plot}, [one.to_json() for one in found])


def _row(one: Collisions) -> list[str]:
    shares = [one.weights, one.asked, one.score, one.rivals, one.heaviest]
    outcome = [f"{one.rr:.3f}", _percent(_rr_lost(one)), f"{one.fallen}, {one.risen}"]
    names = [one.model, str(one.slices), one.slicing, one.query]
    return [*names, *map(_percent, shares), *outcome, _percent(one.score_fallen), _percent(one.score_others)]


def _rr_lost(one: Collisions) -> float:
    return 1 - one.rr / one.rr_all if one.rr_all else 0.0


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _drawn(title: str, found: Sequence[Collisions]) -> bytes:
    """Return a plot with a point for each slicing: MRR@10 lost by weights lost, and by the relevant score lost."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtraError("drawing the figure", "plots") from error
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8, 3.4), layout="constrained")
        figure.suptitle(title, fontsize=10)
        left, right = figure.subplots(1, 2, sharey=True)
        _draw(left, found, [100 * one.weights for one in found], "% of the documents' weights lost")
        _draw(right, found, [100 * one.score for one in found], "% of the relevant document's score lost")
        left.set_ylabel("% of MRR@10 lost")
        right.legend(loc="best")
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
        return buffer.getvalue()


def _draw(panel: Any, found: Sequence[Collisions], across: Sequence[float], name: str) -> None:
    for number, model in enumerate(dict.fromkeys(one.model for one in found)):
        style = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
        chosen = [(x, one) for x, one in zip(across, found, strict=True) if one.model == model]
        places = [[x for x, _ in chosen], [100 * _rr_lost(one) for _, one in chosen]]
        panel.plot(*places, linestyle="none", markersize=4.5, label=model, **style)
        for (x, one), y in zip(chosen, places[1], strict=True):
            panel.annotate(f"{one.slices}", (x, y), (3, 3), textcoords="offset points", fontsize=6, color=INK)
    panel.set_xlabel(name)
