"""One page of results for a query: the k hits after an offset, by score, sorted by a field or in groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

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
from denslice.records import MatchCounts, Ranking
from denslice.search.facets import facet
from denslice.search.field_groups import first_of_groups
from denslice.search.field_order import FieldOrder
from denslice.search.found_rows import best_of_parts, chosen, concatenated
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


@dataclass(frozen=True)
class ResultPage:
    """The hits of a page, and whether more follow it."""

    found: Found
    has_more: bool


@dataclass(frozen=True)
class PagedSearch:
    """A search of one query, the row `at` of a batch of encoded ones; its cursor, if it has one, is checked."""

    reader: PageReader
    asked: AskedOf
    encoded: Encoded
    at: int

    def __post_init__(self) -> None:
        if self.asked.options.cursor is not None:
            Cursor.read(self.asked.options.cursor).check(self.cursor_at(0))

    def with_page(self, ranking: Ranking, page: ResultPage) -> Ranking:
        """Return the ranking of a page with its counts and its cursor, which are made when they are first used.

        Facets are counted at once: replicas of a cluster may show a later commit in a moment.
        """
        end = start_of(self.asked.options) + self.asked.options.k
        count = partial(match_counts, self.reader, self.asked)
        is_arranged = bool(self.asked.options.sort_by or self.asked.options.group_by)
        made = replace(
            ranking,
            count_matches=count,
            is_arranged=is_arranged,
            next_page=partial(self._next, end) if page.has_more else None,
        )
        if self.asked.options.facets:
            _ = made.facets
        return made

    def _next(self, end: int) -> str:
        return str(self.cursor_at(end))

    def cursor_at(self, offset: int) -> Cursor:
        """Return the cursor of this search that skips so many hits."""
        query = described(self.asked.query, self.encoded, self.at)
        return Cursor.of(offset, self.reader.commit, query, self.asked.options)


def searched_options(options: SearchOptions) -> SearchOptions:
    """Return the options of the search that finds a page by score.

    It finds one hit more than the page has, to see whether more follow; not where search is inexact, as that could
    change the others.
    """
    is_exact = options.theta == 0 and options.pruning == 0 and options.rerank
    return replace(options, k=start_of(options) + options.k + is_exact, offset=0, cursor=None)


def score_page(found: Found, options: SearchOptions) -> ResultPage:
    """Return the page of the hits that were found with `searched_options`."""
    start = start_of(options)
    end, count = start + options.k, _high_enough(found, options.min_score)
    may_follow = count == end == searched_options(options).k
    return ResultPage(chosen(found, range(min(start, count), min(end, count))), count > end or may_follow)


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
    page = chosen(found, range(min(start, count), min(end, count)))
    return ResultPage(replace(page, missing=missing), count > end)


def _grouped_page(reader: PageReader, asked: AskedOf) -> ResultPage:
    """Return a page of groups, best first by their best documents. The documents of a group stand together."""
    options, field = asked.options, asked.options.group_by or ""
    start = start_of(options)
    end = start + options.k
    parts, missing = reader.gather(BestGroups(asked, field, end + 1))
    found, keys = first_of_groups(parts, end + 1)
    count = _high_enough(found, options.min_score)
    page, shown = chosen(found, range(min(start, count), min(end, count))), keys[start : min(end, count)]
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
    members = iter([chosen(one, range(_high_enough(one, options.min_score))) for one in found])
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
    fields = {"sort_by": (options.sort_by or "").removeprefix("-"), "group_by": options.group_by or ""}
    named = [*fields.items(), *(("facets", field) for field in options.facets)]
    for option, field in named:
        if field and field not in filterable:
            known = f"filterable: {', '.join(filterable)}" if filterable else "no field is"
            advice = f"create the index with filterable=[{field!r}] (--filterable {field})"
            raise InputError(f"{option} names {field!r}, which is not filterable in this index ({known}); {advice}")
