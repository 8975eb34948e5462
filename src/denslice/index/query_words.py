"""How the words of queries are compared with those that an index has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from denslice.encoders import Encoder
from denslice.encoders.chunk_terms import FORM
from denslice.search.close_words import CloseWords, allowed_distance
from denslice.search.conditions import Ids, KnownWords, analyzer_of
from denslice.store.snapshot import Snapshot


class WordList(Protocol):
    """The names in a vocabulary, by prefix and by spelling; FORM is before those of the words in normal form."""

    def starting_with(self, prefix: str, limit: int | None = None) -> Sequence[str]:
        """Return the words that begin with the prefix, at most so many."""

    def within(self, word: str, distance: int) -> Sequence[tuple[str, int]]:
        """Return the words within this edit distance, each with its own."""


def known_words(snapshot: Snapshot, encoder: Encoder) -> KnownWords:
    """Return the words of a commit."""
    listed, skip = CloseWords.of(snapshot.words.pieces), snapshot.manifest.slicing.skip

    def ids(word: str) -> Ids | None:
        found = encoder.word_ids(word)
        return None if found is None or any(one < skip for one in found) else found

    def like_ids(kind: str, word: str) -> Ids:
        return tuple(id for form in forms_like(kind, word, listed) for id in ids(form) or ())

    analyzer = analyzer_of(snapshot.manifest.encoder_options)
    return KnownWords(analyzer, ids, like_ids, snapshot.manifest.filterable)


def forms_like(kind: str, word: str, listed: WordList) -> list[str]:
    """Return the words of a collection, in normal form, that a prefix or a fuzzy word stands for."""
    found: Sequence[str] = ()
    if kind == "prefix":
        found = listed.starting_with(FORM + word)
    if kind == "fuzzy":
        found = [name for name, _ in listed.within(FORM + word, max(1, allowed_distance(word)))]
    return [name.removeprefix(FORM) for name in found if name.startswith(FORM)]
