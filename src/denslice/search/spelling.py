"""Spelling: the words of a collection that the unknown words of a query are likely meant to be.

A word is unknown if no document holds it or another word of its stem. It is taken for the nearest word by edit
distance, of several for the most frequent, and counts less than a word that was spelt right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from denslice.analysis.scripts import ngram_size
from denslice.rankings import Correction
from denslice.search.close_words import allowed_distance
from denslice.search.conditions import Ids

CACHED_WORDS = 100_000  # words of queries that are remembered before all are forgotten
CORRECTED = 0.7  # the weight of a corrected word, where one that was spelt right has 1


class FormList(Protocol):
    """The words of a collection in normal form."""

    def like_each(self, forms: Sequence[str], distance: int) -> Sequence[Sequence[tuple[str, int]]]:
        """Return for each form the words within this edit distance, each with its own."""


class Speller:
    """Corrects words by those of a collection, given the tokens of a word and how many passages have each."""

    def __init__(
        self, ids: Callable[[str], Ids | None], counts: Callable[[Sequence[int]], Sequence[int]], forms: FormList
    ) -> None:
        self._ids, self._token_counts, self._forms = ids, counts, forms
        self._meant: dict[str, str | None] = {}  # the words of queries; None for those that need no correction

    def corrections(self, forms: Sequence[str]) -> list[Correction]:
        """Return a correction for each unknown word that a known one is near."""
        each, meant = dict.fromkeys(forms), self._meant
        if new := [form for form in each if form not in meant]:
            if len(meant) + len(new) > CACHED_WORDS:  # a new dict: another thread may read the old one
                meant, new = {}, list(each)
                self._meant = meant
            meant.update(self._found(new))
        return [Correction(form, one) for form in each if (one := meant[form])]

    def weights(self, correction: Correction) -> dict[int, float]:
        """Return the weights of a corrected word in a query, by token."""
        return dict.fromkeys(self._ids(correction.meant) or (), CORRECTED)

    def _found(self, forms: Sequence[str]) -> dict[str, str | None]:
        """Return the word that each word is taken for, or None. A distance is searched if no shorter one has any."""
        found: dict[str, str | None] = dict.fromkeys(forms)
        unknown = [form for form, count in zip(forms, self.counts(forms), strict=True) if not count]
        allowed = {form: distance for form in unknown if (distance := _distance(form))}
        for distance in range(1, max(allowed.values(), default=0) + 1):
            asked = [form for form, most in allowed.items() if most >= distance and found[form] is None]
            found |= self._nearest(asked, distance) if asked else {}
        return found

    def _nearest(self, forms: Sequence[str], distance: int) -> dict[str, str]:
        """Return the known word that is nearest to each word, of several the most frequent, if any is near enough."""
        each = self._forms.like_each(forms, distance)
        near = [one for some in each for one, _ in some]
        counts = dict(zip(near, self.counts(near), strict=True))
        known = [[(apart, -counts[one], one) for one, apart in some if counts[one]] for some in each]
        return {form: min(some)[2] for form, some in zip(forms, known, strict=True) if some}

    def counts(self, forms: Sequence[str]) -> list[int]:
        """Return how many passages hold each word, or another word of its stem; 1 for a stop word."""
        each = [self._ids(form) for form in forms]
        ids = [id for some in each if some for id in some]
        counts = dict(zip(ids, self._token_counts(ids), strict=True)) if ids else {}
        return [1 if some is None else max([counts[id] for id in some], default=0) for some in each]


def _distance(form: str) -> int:
    """Return how far the word may be that is meant: 0 for numbers, identifiers and n-grams, which are not misspelt."""
    return allowed_distance(form) if form.isalpha() and not ngram_size(form) else 0
