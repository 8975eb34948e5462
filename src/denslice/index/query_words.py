"""How the words of queries are compared with those that an index has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from denslice.encoders import Encoder
from denslice.search.close_words import CloseWords, allowed_distance
from denslice.search.conditions import Ids, KnownWords, analyzer_of
from denslice.store.snapshot import Snapshot
from denslice.store.vocabulary import ABSENT


class WordList(Protocol):
    """The words of a collection, by prefix and by spelling."""

    def starting_with(self, prefix: str, limit: int | None = None) -> Sequence[str]:
        """Return the words that begin with the prefix, at most so many."""

    def within(self, word: str, distance: int) -> Sequence[tuple[str, int]]:
        """Return the words within this edit distance, each with its own."""


def known_words(snapshot: Snapshot, encoder: Encoder) -> KnownWords:
    """Return the words of a commit. Those that a prefix stands for are found by their stems, as they are stored."""
    words, skip = snapshot.words, snapshot.manifest.slicing.skip
    listed = CloseWords.of(words.pieces)

    def ids(word: str) -> Ids | None:
        found = encoder.word_ids(word)
        return None if found is None or any(one < skip for one in found) else found

    def like_ids(kind: str, word: str) -> Ids:
        found = map(words.find, words_like(kind, word, listed))
        return tuple(id for id in found if id != ABSENT and id >= skip)

    analyzer = analyzer_of(snapshot.manifest.encoder_options)
    return KnownWords(analyzer, ids, like_ids, snapshot.manifest.filterable)


def words_like(kind: str, word: str, listed: WordList) -> list[str]:
    """Return the words of a collection that a prefix or a fuzzy word stands for, beside itself."""
    if kind == "prefix":
        return list(listed.starting_with(word))
    if kind != "fuzzy":
        return []
    near = listed.within(word, max(1, allowed_distance(word)))
    return [found for found, _ in near if not found.startswith("+")]  # which is how the names of hashed phrases begin
