"""What an index, or each shard of a cluster, is asked about the documents that match: to count, sort and group them.

The answers of all shards make that of the whole collection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from denslice.options import SearchOptions
from denslice.queries import Query
from denslice.search.conditions import Conditions
from denslice.search.facets import count_rows, count_values, holding_any
from denslice.search.field_groups import best_of_groups, group_members
from denslice.search.field_order import FieldOrder, KeyedRows
from denslice.search.found_rows import FindWithin, best_rows, rows_from
from denslice.search.query import Found, Mask, QueryVectors
from denslice.store.field_values import FieldKey
from denslice.store.snapshot import Snapshot


class ShardReader(Protocol):
    """The parts of a Reader that a request uses."""

    snapshot: Snapshot

    def meeting(self, conditions: Conditions, where: Mapping[str, Any] | None) -> list[Mask]:
        """Return for each segment a mask of the rows that pass a filter and meet conditions."""

    def find_within(self, query: QueryVectors, options: SearchOptions, masks: Sequence[Mask]) -> Found:
        """Return the k best documents among the rows of the masks."""


class AskedOf(NamedTuple):
    """A query as a shard is asked: its conditions, its vectors, and the options of the search."""

    query: Query
    vectors: QueryVectors
    options: SearchOptions

    def admitted(self, reader: ShardReader) -> list[Mask]:
        """Return the rows that pass the filter and meet the conditions."""
        return reader.meeting(self.vectors.conditions, self.options.where)

    @property
    def are_all_hits(self) -> bool:
        """Whether every row that is admitted is a hit: it meets what is required, or nothing is scored."""
        conditions = self.vectors.conditions
        return bool(conditions.must or (conditions and not len(self.vectors.keys) and self.vectors.dense is None))

    def matching(self, reader: ShardReader) -> list[Mask]:
        """Return the rows that match: of those admitted, all that hold a word of the query, or all if it has none.

        All that meet a required condition match. Words that the collection does not have match nothing, unless dense
        vectors are searched too.
        """
        admitted, segments = self.admitted(reader), reader.snapshot.segments
        if self.are_all_hits:
            return admitted
        if len(self.vectors.keys):
            return holding_any(segments, admitted, self.vectors.keys)
        if self.vectors.dense is None and self.query.text.strip():
            return [np.zeros(segment.rows, dtype=np.uint8) for segment in segments]
        return admitted

    def finder(self, reader: ShardReader) -> FindWithin:
        """Return a search of this query among the rows of masks. Dense scores are computed once for all searches.

        Rows that are hits by the conditions of the query alone have score 0.
        """
        vectors = replace(self.vectors, products={})

        def find(masks: Sequence[Mask], k: int) -> Found:
            return reader.find_within(vectors, self.options.with_k(k), masks)

        if self.are_all_hits:
            return partial(best_rows, find, reader.snapshot.segments)
        return find


class ValueCounts(NamedTuple):
    """The number of matching documents, and of those with each value of some fields."""

    matching: int
    fields: dict[str, Counter[FieldKey]]

    @classmethod
    def merged(cls, parts: Sequence[ValueCounts]) -> ValueCounts:
        """Return the sums of all parts."""
        names = parts[0].fields if parts else ()
        sums = {name: sum((part.fields[name] for part in parts), Counter[FieldKey]()) for name in names}
        return cls(sum(part.matching for part in parts), sums)


class CountMatches(NamedTuple):
    """A request for the number of matching documents, and of those with each value of the facets."""

    asked: AskedOf

    def answer(self, reader: ShardReader) -> ValueCounts:
        """Count the documents of the index or the shard."""
        masks, segments = self.asked.matching(reader), reader.snapshot.segments
        fields = {field: count_values(segments, masks, field) for field in self.asked.options.facets}
        return ValueCounts(count_rows(segments, masks), fields)


class FirstByField(NamedTuple):
    """A request for the first k of all matching documents in the order of a field."""

    asked: AskedOf
    order: FieldOrder
    k: int

    def answer(self, reader: ShardReader) -> KeyedRows:
        """Sort the documents of the index or the shard."""
        find, segments = self.asked.finder(reader), reader.snapshot.segments
        masks = rows_from(find, segments, self.asked.matching(reader), self.asked.options.min_score)
        return self.order.first(find, segments, masks, self.k)


class BestGroups(NamedTuple):
    """A request for the best document of each of the k best groups."""

    asked: AskedOf
    field: str
    k: int

    def answer(self, reader: ShardReader) -> KeyedRows:
        """Find the groups of the index or the shard."""
        masks = self.asked.admitted(reader)
        return best_of_groups(self.asked.finder(reader), reader.snapshot.segments, masks, self.field, self.k)


class GroupMembers(NamedTuple):
    """A request for the n best documents of groups."""

    asked: AskedOf
    field: str
    keys: Sequence[FieldKey]
    n: int

    def answer(self, reader: ShardReader) -> list[Found]:
        """Find the documents of the index or the shard."""
        find, masks = self.asked.finder(reader), self.asked.admitted(reader)
        return group_members(find, reader.snapshot.segments, masks, self.field, self.keys, self.n)


MatchRequest = CountMatches | FirstByField | BestGroups | GroupMembers
