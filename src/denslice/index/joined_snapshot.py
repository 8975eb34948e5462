"""JoinedSnapshot: the commits of several indexes as one, for queries to be encoded with the words of all of them.

The vocabularies follow each other, so that no word has to be read: a word has the id of the first index that has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

from denslice.index.comparable import check_comparable
from denslice.index.query_words import Forms
from denslice.store.snapshot import Snapshot
from denslice.store.vocabulary import Vocabulary


class JoinedSnapshot(Snapshot):
    """The words, the segments and the settings of several commits. A segment has the token ids of its own index."""

    def __init__(self, parts: Sequence[Snapshot]) -> None:
        check_comparable(parts)
        first = next((part for part in parts if part.manifest.segments), parts[0])  # an empty one has no dimensions yet
        self._found_before = None
        self.home = first.home
        self.segments = tuple(segment for part in parts for segment in part.segments)
        self.pieces = {name: piece for part in parts for name, piece in part.pieces.items()}
        self.places, self.followed = first.places, {}
        shared = [name for name in first.manifest.filterable if all(name in one.manifest.filterable for one in parts)]
        self.manifest = replace(
            first.manifest,
            filterable=tuple(shared),
            segments=tuple(entry for part in parts for entry in part.manifest.segments),
            vocabulary=tuple(entry for part in parts for entry in part.manifest.vocabulary),
            roots=(),
        )

    @cached_property
    def words(self) -> Vocabulary:
        """The words of all indexes."""
        return JoinedVocabulary(super().words.pieces)


class JoinedVocabulary(Vocabulary):
    """The words of several indexes. Other ids than the first of a word are never returned."""

    def remember(self, ids: Iterable[int]) -> None:
        """Do nothing: an id may be that of another index than the first that has the word."""


class JoinedForms(Forms):
    """The words of several indexes, each once."""

    def __init__(self, snapshot: Snapshot, indexes: int) -> None:
        super().__init__(snapshot)
        self._indexes = indexes

    def starting_with(self, prefix: str, limit: int | None = None) -> list[str]:
        """Return the words that begin with the prefix, at most so many."""
        most = None if limit is None else limit * self._indexes  # a word comes as often as indexes have it
        return list(dict.fromkeys(super().starting_with(prefix, most)))[:limit]

    def like_each(self, forms: Sequence[str], distance: int) -> list[list[tuple[str, int]]]:
        """Return for each form the words within this edit distance, each with its own, in any order."""
        return [list(dict.fromkeys(some)) for some in super().like_each(forms, distance)]
