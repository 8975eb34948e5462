"""Collided terms as tables: how heavy they were, and the queries that fell most."""

from __future__ import annotations

from collections.abc import Sequence

from denslice.errors import InputError
from denslice.reproduce.cells import lexical_models
from denslice.reproduce.collection import Collection
from denslice.reproduce.collided_terms import LIMITS, CollidedTerms, FallenQuery, IdfInDocs, LostTerm, measured
from denslice.reproduce.encoding import Encodings, Progress
from denslice.reproduce.table_page import Grid, Page, markdown

TITLE = "Which terms of queries collide"
HEAD = ["model", "M", "share of the score", "terms", "lost", "share of all lost score"]
LOST_HEAD = ["model", "M", "MRR@10 lost", "with idf in the documents", "MRR@10 gained"]
EXAMPLE_HEAD = ["query", "rank", "lost terms, their share of the score, and the token that is kept instead"]
NOTE = (
    "A term is a token that a query and its relevant document have, the relevant one that ranks best with all weights. "
    "It is lost if the document's slice or the query's keeps another token (stride slicing, sliced query). Terms are "
    "counted by their share of the score with all weights."
)
IDF_NOTE = (
    "BM25's idf is in the query, so that a document's slice does not know how rare its words are. It could be in the "
    "document, with the same scores. ± is half a 95 % interval over the queries:"
)
SHOWN = 3  # lost terms of an example


def count(models: Sequence[Encodings], grid: Grid) -> int:
    """Return how many slicings are looked at."""
    found = len(lexical_models(models)) * len(grid.slices)
    if not found:
        raise InputError("terms needs a model with a lexical part, and none was named")
    return found


def page(models: Sequence[Encodings], grid: Grid, collection: Collection, progress: Progress) -> Page:
    """Measure the collided terms and return them as tables."""
    found = measured(collection, models, grid.slices, progress)
    parts = [markdown(HEAD, [row for one in found for row in class_rows(one)]), NOTE]
    if weighed := [_lost_row(one, one.idf_in_docs) for one in found if one.idf_in_docs]:
        parts += [IDF_NOTE, markdown(LOST_HEAD, weighed)]
    for one in found:
        if one.slices == min(grid.slices) and one.examples:
            parts += [_example_title(one), markdown(EXAMPLE_HEAD, example_rows(one.examples))]
    return Page("terms", TITLE, "\n\n".join(parts), {}, rows=[one.to_json() for one in found])


def class_rows(one: CollidedTerms) -> list[list[str]]:
    """Return a row for each class of terms."""
    uppers = (None, *LIMITS)
    return [
        [
            one.model,
            str(one.slices),
            between(some.least, upper),
            f"{some.terms:,}",
            _percent(some.lost / max(1, some.terms)),
            _percent(some.score_lost),
        ]
        for some, upper in zip(one.classes, uppers, strict=False)
    ]


def example_rows(examples: Sequence[FallenQuery]) -> list[list[str]]:
    """Return a row for each query that fell."""
    return [[_plain(one.text), _ranks(one), "; ".join(_lost(term) for term in one.lost[:SHOWN])] for one in examples]


def between(least: float, upper: float | None) -> str:
    """Return the name of a class of terms."""
    if upper is None:
        return f"{100 * least:.0f} % or more"
    return f"{100 * least:.0f} to {100 * upper:.0f} %"


def gained(idf_in_docs: IdfInDocs) -> str:
    """Return what idf in the documents gains, with its interval."""
    half = "" if idf_in_docs.half is None else f" ± {idf_in_docs.half:.3f}"
    return f"{idf_in_docs.gain:+.3f}{half}"


def _lost_row(one: CollidedTerms, idf_in_docs: IdfInDocs) -> list[str]:
    shares = (one.rr_lost, idf_in_docs.rr_lost)
    return [one.model, str(one.slices), *map(_percent, shares), gained(idf_in_docs)]


def _example_title(one: CollidedTerms) -> str:
    return f"The queries of {one.model} that fall most with {one.slices} slices:"


def _ranks(one: FallenQuery) -> str:
    return " → ".join(f"{1 / value:.0f}" if value else "beyond 10" for value in one.reciprocal)


def _lost(term: LostTerm) -> str:
    instead = f": {_plain(term.kept)}, in the {term.by}" if term.kept else ""
    return f"**{_plain(term.token)}** {100 * term.share:.0f} %{instead}"


def _plain(text: str) -> str:
    """Return a text without what would end a cell of a table or begin a mark."""
    return " ".join(text.replace("|", " ").replace("*", " ").split())


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
