"""How the words of queries are compared with those that an index has."""

from __future__ import annotations

from denslice.encoders import Encoder
from denslice.search.conditions import Ids, KnownWords, analyzer_of
from denslice.search.word_lists import PlainWords
from denslice.store.snapshot import Snapshot
from denslice.store.vocabulary import ABSENT


def known_words(snapshot: Snapshot, encoder: Encoder) -> KnownWords:
    """Return the words of a commit. The list of those that a prefix stands for has stems."""
    words, skip = snapshot.words, snapshot.manifest.slicing.skip

    def ids(word: str) -> Ids | None:
        found = encoder.word_ids(word)
        return None if found is None or any(one < skip for one in found) else found

    def listed_ids(word: str) -> Ids:
        found = words.find(word)
        return (found,) if found != ABSENT else ()

    return KnownWords(analyzer_of(snapshot.manifest.encoder_options), ids, PlainWords(words.pieces), listed_ids)
