"""The rows of a segment that meet conditions. Posting lists tell of most rows; of the others the document is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeGuard

import numpy as np
import numpy.typing as npt

from denslice.analysis.analyzer import Analyzer
from denslice.records import Doc
from denslice.search.conditions import OWN_FIELDS, Conditions, HeldTokens, HeldWords, Test, hold_each, holds, is_held_by
from denslice.search.holding_rows import rows_with
from denslice.search.query import Mask
from denslice.store.field_values import BOOLEAN
from denslice.store.segment import Segment
from denslice.vectors import Ints

READ = 256  # documents that are read at a time
Rows = npt.NDArray[np.bool_]
Held = Callable[[HeldWords, Sequence[int]], list[bool]]  # which of the documents at these places hold words


class SegmentConditions:
    """What is known of the rows of a segment: those that `may` meet conditions, and those of them that `do`.

    `read` settles the rows that may and are not known to. Deleted rows are not left out.
    """

    def __init__(self, conditions: Conditions, segment: Segment, analyzer: Analyzer) -> None:
        self._conditions, self._segment, self._analyzer = conditions, segment, analyzer
        self._passing = {test: self._possible(test) for test in conditions.tests()}
        fields = [test.field for test in self._passing if _needs_reading(test)]
        self._needs_texts = any(field in OWN_FIELDS for field in fields)
        self._needs_fields = any(field not in OWN_FIELDS for field in fields)
        must, must_not = conditions.must, conditions.must_not
        self.may = self._all(self._any(self._passing[test] for test in some) for some in must)
        self.do = self._all(self._any(self._certain(test) for test in some) for some in must)
        self.may &= ~self._any(self._certain(test) for test in must_not)
        self.do &= ~self._any(self._passing[test] for test in must_not)

    def read(self, rows: Ints) -> None:
        """Read the documents of those of these rows, each given once, that are not settled."""
        unknown = np.sort(rows[self.may[rows] & ~self.do[rows]])
        for start in range(0, len(unknown), READ):
            some = unknown[start : start + READ]
            self.may[some] = self.do[some] = self._meet(some)

    def unknown(self, mask: Mask) -> Ints:
        """Return the rows of a mask that are not settled."""
        is_unknown = self.may & ~self.do
        return np.flatnonzero(mask & is_unknown if len(mask) else is_unknown)

    def masked(self, mask: Mask) -> Mask:
        """Return a mask without the rows that are known not to meet the conditions."""
        return mask & self.may if len(mask) else self.may.astype(np.uint8)

    def _possible(self, test: Test) -> Rows:
        """Return the rows that may pass a test: all that do, if it is about tokens."""
        if isinstance(test, HeldWords) and test.is_filterable:
            return self._having_value(test)
        needed = (test.ids,) if isinstance(test, HeldTokens) else test.needed
        return self._all(rows_with(self._segment, np.array(ids, np.int64)).astype(np.bool_) for ids in needed)

    def _having_value(self, test: HeldWords) -> Rows:
        """Return the rows that pass a test of a filterable field, from the table of its values."""
        documents, having = self._segment.documents, np.zeros(self._segment.rows, np.bool_)
        for kind, value in documents.values(test.field):
            if is_held_by(test, bool(value) if kind == BOOLEAN else value, self._analyzer):
                having[documents.having("eq", test.field, kind, value)] = True
        return having

    def _certain(self, test: Test) -> Rows:
        return np.zeros(self._segment.rows, np.bool_) if _needs_reading(test) else self._passing[test]

    def _meet(self, rows: Ints) -> Rows:
        """Return which of these rows meet the conditions, after reading their documents."""
        held = self._holders(rows.tolist())
        meet = np.ones(len(rows), np.bool_)
        for some in self._conditions.must:
            meet &= self._pass(some, rows, held, meet)
        return meet & ~self._pass(self._conditions.must_not, rows, held, meet)

    def _pass(self, tests: Sequence[Test], rows: Ints, held: Held, asked: Rows) -> Rows:
        """Return which of these rows pass any of the tests; only those are looked at that are asked for."""
        passing = np.zeros(len(rows), np.bool_)
        for test in tests:
            may_pass = asked & self._passing[test][rows]
            if _needs_reading(test):
                at = np.flatnonzero(may_pass & ~passing)
                passing[at] = held(test, at.tolist())
            else:
                passing |= may_pass
        return passing

    def _holders(self, rows: Sequence[int]) -> Held:
        """Return a function that tells which of these rows hold the words of a test; the documents are read here."""
        documents, analyzer = self._segment.documents, self._analyzer
        if not self._needs_fields:
            texts = documents.texts(rows)
            return lambda test, places: hold_each(test, [texts[at] for at in places], analyzer)
        if self._needs_texts:
            docs = list(documents.fetch(rows).values())
        else:
            fields = (found for _, found in documents.fields(rows))
            docs = [Doc(one["id"], "", one.get("title", ""), one) for one in fields]
        return lambda test, places: [holds(test, docs[at], analyzer) for at in places]

    def _all(self, masks: Iterable[Rows]) -> Rows:
        every = np.ones(self._segment.rows, np.bool_)
        for mask in masks:
            every &= mask
        return every

    def _any(self, masks: Iterable[Rows]) -> Rows:
        some = np.zeros(self._segment.rows, np.bool_)
        for mask in masks:
            some |= mask
        return some


def _needs_reading(test: Test) -> TypeGuard[HeldWords]:
    return isinstance(test, HeldWords) and not test.is_filterable


def rows_meeting(
    conditions: Conditions, segments: Sequence[Segment], masks: Sequence[Mask], analyzer: Analyzer
) -> list[Mask]:
    """Return the masks without the rows that do not meet the conditions, for which every document may be read."""
    met = []
    for segment, mask in zip(segments, masks, strict=True):
        known = SegmentConditions(conditions, segment, analyzer)
        known.read(np.flatnonzero(known.masked(mask)))
        met.append(known.masked(mask))
    return met
