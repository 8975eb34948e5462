"""Documents as hits show them: with their best passages, or one passage as a document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from denslice.grouping import PASSAGE_SHARE
from denslice.rankings import FoundDoc, Passage
from denslice.records import Doc, Place
from denslice.search.passage_hits import passage_query, score_passages
from denslice.search.query import Found, QueryVectors
from denslice.store.segment import Segment

SHOWN_PASSAGES = 3  # passages that a hit shows


class FoundScore(NamedTuple):
    """The scores of a document that was found, or of the passage with this number in it."""

    lexical: float
    dense: float
    passage: int | None


def found_scores(found: Found) -> Iterator[FoundScore]:
    """Return the scores of what was found, in its order."""
    dense = found.dense.tolist() or [0.0] * len(found.ids)
    passages: list[int | None] = found.passages.tolist() or [None] * len(found.ids)
    return map(FoundScore, found.lexical.tolist(), dense, passages)


def found_doc(segment: Segment, row: int, doc: Doc, query: QueryVectors, score: FoundScore) -> FoundDoc:
    """Return a document with its best passages, or one of its passages as a document."""
    is_whole = segment.passage_counts is None or segment.passage_counts[row] == 1
    places = [Place(0, len(doc.text))] if is_whole else segment.places(np.array([row]))[row]
    if score.passage is not None:
        passage = _passage(doc, places, score.passage, score.lexical, score.dense)
        return replace(doc, text=passage.text), (passage,)
    if is_whole:
        return doc, (_passage(doc, places, 0, score.lexical, PASSAGE_SHARE * score.dense),)
    scored = score_passages(segment, np.array([row]), passage_query(query))
    scores, lexical, dense = scored.scores.tolist(), scored.lexical.tolist(), scored.dense.tolist()
    best = sorted(range(len(scores)), key=lambda number: (-scores[number], number))[:SHOWN_PASSAGES]
    return doc, tuple(_passage(doc, places, number, lexical[number], dense[number]) for number in best)


def _passage(doc: Doc, places: list[Place], number: int, lexical: float, dense: float) -> Passage:
    place = places[number]
    text = doc.text[place.start : place.end]
    return Passage(number, text, *place, lexical + dense, lexical, dense, len(doc.text))


def places_in(segment: Segment, row: int) -> list[Place]:
    """Return the places of the passages of a row."""
    one = np.array([row])
    if len(segment.passage_numbers(one)) > 1:
        return segment.places(one)[row]
    return [Place(0, len(segment.documents.fetch([row])[row].text))]
