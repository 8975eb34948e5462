"""One page of results for a query: the k hits after an offset, by score, sorted by a field or in groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from denslice.errors import InputError
from denslice.index.match_requests import (
    AskedOf,
    BestGroups,
    CountMatches,
    FirstByField,
    GroupMembers,
    MatchRequest,
    ValueCounts,
)
from denslice.index.paging import Cursor, described, start_of
from denslice.options import SearchOptions
from denslice.rankings import MatchCounts
from denslice.search.facets import facet
from denslice.search.field_groups import first_of_groups
from denslice.search.field_order import FieldOrder
from denslice.search.found_rows import best_of_parts, chosen, concatenated, part_of
from denslice.search.query import Found
from denslice.stage_timers import stage
from denslice.store.field_values import FieldKey
from denslice.vectors import Encoded


class PageReader(Protocol):
    """The parts of a Reader, or of a ClusterReader, that make pages."""

    @property
    def commit(self) -> str:
        """The name of the commit."""

    def gather(self, request: MatchRequest) -> tuple[Sequence[Any], tuple[str, ...]]:
        """Return the answer of the index, or those of the shards, and the names of shards that did not answer."""


class ResultPage(NamedTuple):
    """The hits of a page, and whether more follow it."""

    found: Found
    has_more: bool


class PagedSearch(NamedTuple):
    """The search of one query, the row `at` of a batch of encoded ones, that found a page."""

    reader: PageReader
    asked: AskedOf
    encoded: Encoded
    at: int
    has_more: bool = False

    @property
    def has_facets(self) -> bool:
        """Whether values of fields are to be counted."""
        return bool(self.asked.options.facets)

    @property
    def is_arranged(self) -> bool:
        """Whether the hits are sorted by a field or in groups."""
        return is_arranged(self.asked.options)

    def counts(self) -> MatchCounts:
        """Count the documents that match, and the facets."""
        return match_counts(self.reader, self.asked)

    def cursor(self) -> str | None:
        """Return what continues after the page, or None if no more follow."""
        options = self.asked.options
        return str(self._cursor_at(start_of(options) + options.k)) if self.has_more else None

    def check_cursor(self) -> None:
        """Raise InputError if the search was given the cursor of another one."""
        if self.asked.options.cursor is not None:
            Cursor.read(self.asked.options.cursor).check(self._cursor_at(0))

    def _cursor_at(self, offset: int) -> Cursor:
        query = described(self.asked.query, self.encoded, self.at)
        return Cursor.of(offset, self.reader.commit, query, self.asked.options)


def is_arranged(options: SearchOptions) -> bool:
    """Return whether the hits are to be sorted by a field or in groups."""
    return options.sort_by is not None or options.group_by is not None


def searched_options(options: SearchOptions) -> SearchOptions:
    """Return the options of the search that finds a page by score.

    It finds one hit more than the page has, to see whether more follow; not where search is inexact, as that could
    change the others.
    """
    return options.with_k(start_of(options) + options.k + options.is_exact())


def score_page(found: Found, options: SearchOptions, searched: int) -> ResultPage:
    """Return the page of the hits that were found; so many were searched for."""
    start = start_of(options)
    end, count = start + options.k, _high_enough(found, options.min_score)
    may_follow = count == end == searched
    return ResultPage(part_of(found, start, min(end, count)), count > end or may_follow)


def arranged_page(reader: PageReader, asked: AskedOf) -> ResultPage:
    """Return the page of a search with `sort_by` or `group_by`."""
    with stage("search"):
        return _sorted_page(reader, asked) if asked.options.sort_by else _grouped_page(reader, asked)


def _sorted_page(reader: PageReader, asked: AskedOf) -> ResultPage:
    """Return a page of matching documents in the order of a field. Their scores are exact."""
    order = FieldOrder.of(asked.options.sort_by or "")
    start = start_of(asked.options)
    end = start + asked.options.k
    exact = asked._replace(options=replace(asked.options, theta=0.0, pruning=0.0))
    parts, missing = reader.gather(FirstByField(exact, order, end + 1))
    found = order.merged(parts, end + 1).found
    count = len(found.ids)
    page = part_of(found, start, min(end, count))
    return ResultPage(replace(page, missing=missing), count > end)


def _grouped_page(reader: PageReader, asked: AskedOf) -> ResultPage:
    """Return a page of groups, best first by their best documents. The documents of a group stand together."""
    options, field = asked.options, asked.options.group_by or ""
    start = start_of(options)
    end = start + options.k
    parts, missing = reader.gather(BestGroups(asked, field, end + 1))
    found, keys = first_of_groups(parts, end + 1)
    count = _high_enough(found, options.min_score)
    page, shown = part_of(found, start, min(end, count)), keys[start : min(end, count)]
    if options.per_group > 1:
        page, missing = _with_members(reader, asked, page, shown)
    return ResultPage(replace(page, missing=missing), count > end)


def _with_members(
    reader: PageReader, asked: AskedOf, best: Found, keys: Sequence[FieldKey | None]
) -> tuple[Found, tuple[str, ...]]:
    """Return the documents of groups, given the best of each; a group without a key has only that one."""
    options, named = asked.options, [key for key in keys if key is not None]
    answers, missing = reader.gather(GroupMembers(asked, options.group_by or "", named, options.per_group))
    found = [best_of_parts(parts, options.per_group) for parts in zip(*answers, strict=True)]
    members = iter([part_of(one, 0, _high_enough(one, options.min_score)) for one in found])
    groups = [chosen(best, [at]) if key is None else next(members) for at, key in enumerate(keys)]
    return concatenated(groups), missing


def _high_enough(found: Found, least: float | None) -> int:
    """Return how many hits, which are in the order of their scores, do not score below `least`."""
    return len(found.ids) if least is None else int(np.count_nonzero(found.scores.astype(np.float64) >= least))


def match_counts(reader: PageReader, asked: AskedOf) -> MatchCounts:
    """Return how many documents match, and the facets."""
    with stage("facets"):
        counts = ValueCounts.merged(reader.gather(CountMatches(asked))[0])
        return MatchCounts(counts.matching, {field: facet(values) for field, values in counts.fields.items()})


def check_fields(options: SearchOptions, filterable: Sequence[str]) -> None:
    """Raise InputError if the options count, sort or group by a field that is not filterable."""
    named = [("facets", field) for field in options.facets]
    if options.sort_by is not None:
        named.append(("sort_by", options.sort_by.removeprefix("-")))
    if options.group_by is not None:
        named.append(("group_by", options.group_by))
    for option, field in named:
        if field not in filterable:
            known = f"filterable: {', '.join(filterable)}" if filterable else "no field is"
            advice = f"create the index with filterable=[{field!r}] (--filterable {field})"
            raise InputError(f"{option} names {field!r}, which is not filterable in this index ({known}); {advice}")
