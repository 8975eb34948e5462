"""Completions: words of a collection with which the last word of a text that is being typed may go on."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol

from denslice.analysis.normal_forms import normal_form
from denslice.analysis.scripts import ngram_size

COUNTED = 2_000  # words that begin as the typed one, of which the most frequent are chosen
_last_word = re.compile(r"[^\s\"+:(-]+$")


class PrefixedForms(Protocol):
    """The words of a collection in normal form."""

    def starting_with(self, prefix: str, limit: int | None = None) -> Sequence[str]:
        """Return the words that begin with the prefix, at most so many."""


def completions(text: str, k: int, forms: PrefixedForms, counts: Callable[[Sequence[str]], Sequence[int]]) -> list[str]:
    """Return the text with its last word completed in the k most frequent ways, the most frequent first.

    `counts` returns how many passages hold each word. A text that ends with a space or an operator has no last word.
    """
    found = _last_word.search(text)
    word = normal_form(found[0]) if found else ""
    if not word or ngram_size(word):
        return []
    near = [form for form in forms.starting_with(word, COUNTED) if form != word]
    held = sorted((-count, form) for form, count in zip(near, counts(near), strict=True) if count)
    before = text[: found.start()] if found else text
    return [f"{before}{form}" for _, form in held[:k]]
