"""Spelling: the words of a collection that the unknown words of a query are likely meant to be.

A word is unknown if no document holds it or another word of its stem. It is taken for the nearest word by edit
distance, of several for the most frequent, and counts less than a word that was spelt right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, chain, groupby
from typing import Protocol

import numpy as np

from denslice.analysis.scripts import ngram_size
from denslice.rankings import Correction
from denslice.search.close_words import allowed_distance
from denslice.search.conditions import Ids
from denslice.vectors import Ints

CACHED_WORDS = 100_000  # words of queries that are remembered before all are forgotten
CORRECTED = 0.7  # the weight of a corrected word, where one that was spelt right has 1


class FormList(Protocol):
    """The words of a collection in normal form."""

    def like(self, form: str, distance: int) -> Sequence[tuple[str, int]]:
        """Return the words within this edit distance, each with its own, the nearest first."""


class Speller:
    """Corrects words by those of a collection, given the tokens of a word and how many passages have each."""

    def __init__(self, ids: Callable[[str], Ids | None], frequencies: Callable[[Ints], Ints], forms: FormList) -> None:
        self._ids, self._frequencies, self._forms = ids, frequencies, forms
        self._meant: dict[str, str | None] = {}  # the words of queries; None for those that need no correction

    def corrections(self, forms: Sequence[str]) -> list[Correction]:
        """Return a correction for each unknown word that a known one is near."""
        new = [form for form in dict.fromkeys(forms) if form not in self._meant]
        if len(self._meant) + len(new) > CACHED_WORDS:
            self._meant.clear()
            new = list(dict.fromkeys(forms))
        self._meant |= dict.fromkeys(new)
        for form, count in zip(new, self.counts(new), strict=True):
            distance = 0 if count else _distance(form)
            self._meant[form] = self._nearest(form, distance) if distance else None
        return [Correction(form, meant) for form in dict.fromkeys(forms) if (meant := self._meant[form])]

    def weights(self, correction: Correction) -> dict[int, float]:
        """Return the weights of a corrected word in a query, by token."""
        return dict.fromkeys(self._ids(correction.meant) or (), CORRECTED)

    def _nearest(self, form: str, distance: int) -> str | None:
        for _, group in groupby(self._forms.like(form, distance), key=lambda near: near[1]):
            near = [one for one, _ in group]
            known = [(-count, one) for one, count in zip(near, self.counts(near), strict=True) if count]
            if known:
                return min(known)[1]
        return None

    def counts(self, forms: Sequence[str]) -> list[int]:
        """Return how many passages hold each word, or another word of its stem; 1 for a stop word."""
        ids = [self._ids(form) for form in forms]
        sizes = [0 if some is None else len(some) for some in ids]
        frequencies = self._frequencies(np.fromiter(chain.from_iterable(some or () for some in ids), np.int64)).tolist()
        ends = accumulate(sizes)
        counts = [max(frequencies[end - size : end], default=0) for end, size in zip(ends, sizes, strict=True)]
        return [1 if some is None else count for some, count in zip(ids, counts, strict=True)]


def _distance(form: str) -> int:
    """Return how far the word may be that is meant: 0 for numbers, identifiers and n-grams, which are not misspelt."""
    return allowed_distance(form) if form.isalpha() and not ngram_size(form) else 0
