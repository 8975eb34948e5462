"""How the words of queries are compared with those that an index has."""

from __future__ import annotations

from collections.abc import Sequence

from denslice.encoders import Encoder
from denslice.encoders.chunk_terms import FORM
from denslice.search.close_words import CloseWords, allowed_distance
from denslice.search.conditions import Ids, KnownWords, analyzer_of
from denslice.store.snapshot import Snapshot


class Forms:
    """The words of a collection in normal form, by prefix and by spelling. The vocabulary has them after FORM."""

    def __init__(self, snapshot: Snapshot, before: Forms | None = None) -> None:
        """List the words of a commit, sharing the tables of another one from which it descends."""
        self._words = snapshot.words
        self._listed: CloseWords = CloseWords.of(snapshot.words.pieces, before._listed if before else None, FORM)

    def starting_with(self, prefix: str, limit: int | None = None) -> list[str]:
        """Return the words that begin with the prefix, at most so many."""
        return [name.removeprefix(FORM) for name in self._listed.starting_with(FORM + prefix, limit)]

    def like(self, form: str, distance: int) -> list[tuple[str, int]]:
        """Return the words within this edit distance, each with its own."""
        return sorted(self.like_each([form], distance)[0], key=lambda one: (one[1], one[0]))

    def like_each(self, forms: Sequence[str], distance: int) -> list[list[tuple[str, int]]]:
        """Return for each form the words within this edit distance, each with its own, in any order.

        Whoever asks for words will look for their tokens. A word's stem has the token id after that of its form, if
        it was new with it.
        """
        found = self._listed.ids_within_each([FORM + form for form in forms], distance)
        self._words.remember(id + 1 for some in found for id, _ in some)
        return [[(self._words.word(id).removeprefix(FORM), apart) for id, apart in some] for some in found]


def known_words(snapshot: Snapshot, encoder: Encoder, forms: Forms) -> KnownWords:
    """Return the words of a commit."""
    skip = snapshot.manifest.slicing.skip

    def ids(word: str) -> Ids | None:
        found = encoder.word_ids(word)
        return None if found is None or any(one < skip for one in found) else found

    def like_ids(kind: str, word: str) -> Ids:
        return tuple(id for form in forms_like(kind, word, forms) for id in ids(form) or ())

    analyzer = analyzer_of(snapshot.manifest.encoder_options)
    return KnownWords(analyzer, ids, like_ids, snapshot.manifest.filterable)


def forms_like(kind: str, word: str, forms: Forms) -> list[str]:
    """Return the words of a collection that a prefix or a fuzzy word stands for."""
    if kind == "prefix":
        return forms.starting_with(word)
    if kind == "fuzzy":
        return [form for form, _ in forms.like(word, max(1, allowed_distance(word)))]
    return []
