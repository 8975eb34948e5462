"""BM25 as an inner product: a document's weights hold term frequency and length, the query's weights hold idf.

A document's weights depend on the document and on fixed settings only: documents that are added later change the idf
and no stored weight, and their order does not matter. Two adjacent words can count as a phrase: it is a token like a
word, but phrases are hashed into BUCKETS, so that the vocabulary stays small.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from zlib import crc32

import numpy as np
import numpy.typing as npt

from denslice.encoders.analysis import Analyzer, WordCache, has_words
from denslice.errors import InputError
from denslice.scalars import number
from denslice.store.vocabulary import ABSENT, WordIds
from denslice.vectors import Encoded, Floats, Ints, Phrases, Weights, csr

if TYPE_CHECKING:
    import scipy.sparse as sp

IdArray = npt.NDArray[np.int32]
Hash = TypeVar("Hash", int, npt.NDArray[np.uint64])
BUCKETS = 1 << 16  # token ids that all phrases share
STOP_HASH = 1 << 32  # the hash of stop words, which no other word has
AVERAGE_LENGTH = 40.0  # the best of nine dev and train splits; benchmarks/average_length.py
UNSEEN = -3  # the token id of a bucket that no phrase has used yet
STOP = -2  # the token id of a stop word; a word that the vocabulary lacks has ABSENT


class Token(NamedTuple):
    """A word or a phrase of a text: its token id, and the positions of its first and last word."""

    id: int
    first: int
    last: int


@dataclass(frozen=True)
class Bm25Config:
    """The settings of BM25.

    `average_length` counts words without stop words. It is fixed for the life of an index and never measured, so that
    a document has the same weights in every index. `phrases` is the weight of a phrase relative to that of a word of
    the same frequency; 0 turns phrases off.
    """

    language: str = "english"
    stop_words: tuple[str, ...] | None = None
    k1: float = 0.9
    b: float = 0.4
    average_length: float = AVERAGE_LENGTH
    phrases: float = 0.0

    def __post_init__(self) -> None:
        self.analyzer()
        numbers = {
            "k1": number("k1", self.k1, 0),
            "b": number("b", self.b, 0, 1),
            "phrases": number("phrases", self.phrases, 0),
            "average_length": number("average_length", self.average_length, 0, above=True),
        }
        for name, value in numbers.items():  # JSON holds Python's numbers and not numpy's
            object.__setattr__(self, name, value)

    def analyzer(self) -> Analyzer:
        """Return the analyzer of these settings."""
        return Analyzer(self.language, self.stop_words)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as a JSON object."""
        return asdict(self) | {"stop_words": None if self.stop_words is None else list(self.stop_words)}

    @classmethod
    def from_json(cls, settings: Mapping[str, Any]) -> Bm25Config:
        """Return the settings of a JSON object; missing keys have their defaults."""
        names = [field.name for field in fields(cls)]
        unknown = sorted(set(settings) - set(names))
        if unknown:
            raise InputError(f"bm25 has no setting {', '.join(unknown)}; it has {', '.join(names)}")
        stop_words = settings.get("stop_words")
        if isinstance(stop_words, list):
            stop_words = tuple(stop_words)
        return cls(**{**settings, "stop_words": stop_words})


class Bm25:
    """Encodes texts as BM25 weights over a vocabulary, which grows with the documents if it is a Growth.

    With a fixed vocabulary, unknown words of a document count only in its length.
    """

    reads = "text"
    batch_docs = 2_048
    lam = 1.0
    uses_idf = True
    has_model = False

    def __init__(self, config: Bm25Config, words: WordIds) -> None:
        self.config = config
        self.words = words
        self.analyzer = config.analyzer()
        # The id that `place` returns for a word never changes, so it is cached by the unstemmed word. `find` is not
        # cached: a word that a growing vocabulary lacks now may be placed later.
        # Neither cache refers to this encoder: the vocabulary's file would stay open until garbage is collected.
        self._doc_ids = WordCache(partial(_doc_id, self.analyzer, words.place))
        self._hashes = WordCache(partial(_word_hash, self.analyzer))
        self._bucket_ids = np.full(BUCKETS, UNSEEN, dtype=np.int32)

    def encode_docs(self, texts: Sequence[str]) -> Encoded:
        """Return weights of tf / (tf + k1 · (1 - b + b · length / average_length)), as in Lucene, without idf."""
        words, phrases = [], []
        for text in texts:  # text by text, so that token ids do not depend on the batch
            split = self.analyzer.split(text)
            words.append(list(map(self._doc_ids.__getitem__, split)))
            phrases.append(self._doc_phrases(split) if self.config.phrases else [])
        ids, rows = _flat(words)
        lengths = np.bincount(rows[ids != STOP], minlength=len(texts))
        norms = self.config.k1 * (1 - self.config.b + self.config.b * lengths / self.config.average_length)
        weights = _saturated(self._counts(ids, rows, len(texts)), norms)
        if self.config.phrases:
            weights += self.config.phrases * _saturated(self._counts(*_flat(phrases), len(texts)), norms)
        return Encoded(weights, lengths=lengths)

    def encode_queries(self, texts: Sequence[str]) -> Encoded:
        """Return how often each word of the vocabulary occurs in each query; other words are dropped."""
        counted = [self._counted(text) for text in texts]
        starts = np.fromiter(accumulate(map(len, counted), initial=0), np.int32, len(texts) + 1)
        columns = np.fromiter((id for row in counted for id, _ in row), np.int32, starts[-1])
        counts = np.fromiter((count for row in counted for _, count in row), np.float32, starts[-1])
        return Encoded(Weights(counts, columns, starts, (len(texts), len(self.words))))

    def text_lengths(self, texts: Sequence[str]) -> Ints:
        """Return the number of words of each text without stop words."""
        counts = (sum(self._hashes[word] != STOP_HASH for word in self.analyzer.split(text)) for text in texts)
        return np.fromiter(counts, np.int64, len(texts))

    def phrases(self, text: str) -> Phrases:
        """Return the phrases of a text, as stems in order, by the token id of their bucket."""
        found: dict[int, tuple[str, ...]] = {}
        for pair in pairwise(self.analyzer.words(text)) if self.config.phrases else ():
            id, phrase = self._phrase_id(pair), " ".join(pair)
            if id != ABSENT and phrase not in found.get(id, ()):
                found[id] = (*found.get(id, ()), phrase)
        return found

    def _phrase_id(self, pair: tuple[str, str]) -> int:
        return self.words.find(_name(_bucket(*map(_hash, pair))))

    def _counted(self, text: str) -> list[tuple[int, int]]:
        """Return the known tokens of a query, sorted, with their counts."""
        words = self.analyzer.words(text) if has_words(text) else []  # a line of underscores is a word in a document
        counts = Counter(map(self.words.find, words))
        if self.config.phrases:
            counts.update(map(self._phrase_id, pairwise(words)))
        return sorted(pair for pair in counts.items() if pair[0] > ABSENT)

    def _doc_phrases(self, words: Sequence[str]) -> list[int]:
        """Return the token id of each phrase of a document; a new one is placed in the vocabulary."""
        hashes = np.fromiter(map(self._hashes.__getitem__, words), np.uint64, len(words))
        hashes = hashes[hashes != STOP_HASH]
        buckets = _bucket(hashes[:-1], hashes[1:])
        ids = self._bucket_ids[buckets]
        if (ids == UNSEEN).any():
            for new in dict.fromkeys(buckets[ids == UNSEEN].tolist()):
                self._bucket_ids[new] = self.words.place(_name(new))
            ids = self._bucket_ids[buckets]
        found: list[int] = ids.tolist()
        return found

    def token(self, id: int) -> str:
        """Return the word (stem) that has this token id."""
        return self.words.word(id)

    def word_ids(self, word: str) -> tuple[int, ...] | None:
        """Return the token of a word, if the vocabulary has it; None for a stop word."""
        stem = self.analyzer.stem(word)
        id = ABSENT if stem is None else self.words.find(stem)
        return None if stem is None else (id,) if id != ABSENT else ()

    def doc_tokens(self, words: Sequence[str]) -> Iterator[Token]:
        """Yield the tokens of a document's unstemmed words; new ones are placed in the vocabulary."""
        return self._tokens(words, self.words.place)

    def query_tokens(self, words: Sequence[str]) -> Iterator[Token]:
        """Yield the tokens of a query's unstemmed words; those that the vocabulary lacks have the id ABSENT."""
        return self._tokens(words, self.words.find)

    def _tokens(self, words: Sequence[str], id_of: Callable[[str], int]) -> Iterator[Token]:
        stems = [(stem, at) for at, stem in enumerate(self.analyzer.stems(words)) if stem is not None]
        yield from (Token(id_of(stem), at, at) for stem, at in stems)
        if self.config.phrases:
            hashed = [(_hash(stem), at) for stem, at in stems]
            for (one, first), (other, last) in pairwise(hashed):
                yield Token(id_of(_name(_bucket(one, other))), first, last)

    def _counts(self, ids: IdArray, rows: IdArray, texts: int) -> sp.csr_array:
        known, vocab = ids > ABSENT, len(self.words)
        places, counts = np.unique(rows[known].astype(np.int64) * vocab + ids[known], return_counts=True)
        starts = np.searchsorted(places, np.arange(texts + 1) * np.int64(vocab)).astype(np.int32)
        columns = (places % max(1, vocab)).astype(np.int32)
        return csr((counts.astype(np.float32), columns, starts), (texts, vocab))


def idf(df: npt.NDArray[Any], docs: int) -> Floats:
    """Return ln(1 + (docs - df + 0.5) / (df + 0.5)) of each document frequency, as in Lucene, float32."""
    return np.log1p((docs - df + 0.5) / (df + 0.5)).astype(np.float32)


def _doc_id(analyzer: Analyzer, place: Callable[[str], int], word: str) -> int:
    stem = analyzer.stem(word)
    return STOP if stem is None else place(stem)


def _word_hash(analyzer: Analyzer, word: str) -> int:
    stem = analyzer.stem(word)
    return STOP_HASH if stem is None else _hash(stem)


def _hash(stem: str) -> int:
    return crc32(stem.encode("utf-8", errors="surrogatepass"))


def _bucket(one: Hash, other: Hash) -> Hash:
    """Return the bucket of a phrase from the hashes of its words: integers, or uint64 arrays of them."""
    mixed: Any = (one * 0x9E3779B1 + other) & 0xFFFFFFFF
    mixed = ((mixed ^ mixed >> 15) * 0x85EBCA6B) & 0xFFFFFFFF
    bucket: Hash = (mixed ^ mixed >> 13) * BUCKETS >> 32
    return bucket


def _name(bucket: int) -> str:
    """Return the name of a bucket in the vocabulary, which no word has."""
    return f"+{bucket:x}"


def _saturated(counts: sp.csr_array, norms: npt.NDArray[np.floating]) -> sp.csr_array:
    """Return tf / (tf + norm of the row) for each count tf."""
    spread = np.repeat(norms, np.diff(counts.indptr))  # (nnz,)
    counts.data = (counts.data / (counts.data + spread)).astype(np.float32)
    return counts


def _flat(ids: list[list[int]]) -> tuple[IdArray, IdArray]:
    """Return all ids in one array, and the row of each."""
    sizes = [len(row) for row in ids]
    flat = np.fromiter(chain.from_iterable(ids), dtype=np.int32, count=sum(sizes))
    return flat, np.repeat(np.arange(len(ids), dtype=np.int32), sizes)
