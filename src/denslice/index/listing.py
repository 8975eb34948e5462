"""What an index holds, without a search: the list of its documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from denslice.index.reader import BATCH, Reader
from denslice.records import filter_fields
from denslice.search.filter import Filter, matches, parse
from denslice.store.segment import Segment


class ListedDoc(NamedTuple):
    """A document in a list: how many passages it has, and how many characters its text has."""

    id: str
    title: str
    passages: int
    characters: int


def list_docs(reader: Reader, where: Mapping[str, Any] | None) -> Iterator[ListedDoc]:
    """Yield each document that passes the filter, in the order in which documents are stored.

    Documents are read in batches and compared one by one, so that memory does not grow with the index.
    """
    filter, found = parse({} if where is None else where), False
    for segment in reader.every_segment():
        for listed in _list_segment(segment, filter):
            found = True
            yield listed
    if where is not None and not found:
        reader.warn_of_unknown_fields(where)


def _list_segment(segment: Segment, filter: Filter) -> Iterator[ListedDoc]:
    rows = segment.live_row_numbers()
    for row, doc in zip(rows, segment.live_docs(BATCH), strict=True):
        if matches(filter, filter_fields(doc.id, doc.title, doc.meta)):
            yield ListedDoc(doc.id, doc.title, _passages(segment, row), len(doc.text))


def _passages(segment: Segment, row: int) -> int:
    return 1 if segment.passage_counts is None else int(segment.passage_counts[row])
