"""BM25 as an inner product: a document's weights hold term frequency and length, the query's weights hold idf.

A document's weights depend on the document and on fixed settings only: documents that are added later change the idf
and no stored weight, and their order does not matter. Words of titles and headings count several times (BM25F): a
token has one weight, from its counts in all fields. Two adjacent words can count as a phrase: it is a token like a
word, but phrases are hashed into BUCKETS, so that the vocabulary stays small.

The vocabulary has three kinds of names that no word has: those of phrases (+1f), of the languages of passages
(~german), and the forms of words (=receive), which no document has as a token.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import accumulate, groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from denslice.analysis.analyzer import ANALYSIS, AnalyzedWord, Analyzer
from denslice.analysis.fielded_text import fields_of
from denslice.analysis.languages import ENGLISH
from denslice.analysis.recogniser import recognised_among
from denslice.analysis.terms import WHOLE_WORD
from denslice.encoders.chunk_terms import BatchChunks, ChunkTerms, flat, stem_hash
from denslice.errors import InputError
from denslice.scalars import number
from denslice.store.vocabulary import ABSENT, WordIds
from denslice.vectors import Encoded, Floats, Ints, Phrases, Weights, csr

if TYPE_CHECKING:
    import scipy.sparse as sp

IdArray = npt.NDArray[np.int32]
Hash = TypeVar("Hash", int, npt.NDArray[np.uint64])
BUCKETS = 1 << 16  # token ids that all phrases share
TITLE, HEADING = 2.0, 1.0  # how often a word of a title and of a heading counts
FIELDS, HEADINGS = 3, 2  # of a text: title, body, and the last of them
COMPILED_FROM = 4_096  # texts; fewer are read in less time than numba takes to load
AVERAGE_LENGTH = 40.0  # the best of nine dev and train splits; benchmarks/average_length.py
UNSEEN = -3  # the token id of a bucket that no phrase has used yet
LANGUAGE, PHRASE = "~", "+"  # before a language and before the bucket of a phrase, in the vocabulary
LANGUAGE_WEIGHT = 2.0**-10  # of the token that counts the passages of a language; no query has it


class Token(NamedTuple):
    """A token of a text: its id, and where the word or phrase is that it stands for."""

    id: int
    start: int
    end: int


@dataclass(frozen=True)
class Bm25Config:
    """The settings of BM25.

    Without a `language`, that of each passage is recognised. `average_length` counts words without stop words. It is
    fixed for the life of an index and never measured, so that a document has the same weights in every index. A word
    of the title counts `title` times, and one of the headings above a passage `heading` times besides. `phrases` is the
    weight of a phrase relative to that of a word of the same frequency; 0 turns phrases off.
    """

    language: str | None = None
    stop_words: tuple[str, ...] | None = None
    k1: float = 0.9
    b: float = 0.4
    average_length: float = AVERAGE_LENGTH
    phrases: float = 0.0
    title: float = TITLE
    heading: float = HEADING
    analysis: int = ANALYSIS  # the version of the analysis by which an index was made

    def __post_init__(self) -> None:
        object.__setattr__(self, "language", self.analyzer().language)
        if self.analysis != ANALYSIS:
            told = "this index was made with an earlier analysis of words"
            raise InputError(f"{told}; run `denslice upgrade` on it, which encodes its texts again")
        numbers = {
            "k1": number("k1", self.k1, 0),
            "b": number("b", self.b, 0, 1),
            "phrases": number("phrases", self.phrases, 0),
            "title": number("title", self.title, 0),
            "heading": number("heading", self.heading, 0),
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

    def __init__(self, config: Bm25Config, words: WordIds, languages: Mapping[str, int] | None = None) -> None:
        """Make the encoder of an index whose passages have these languages, each so often, for its queries."""
        self.config = config
        self.words = words
        self.analyzer = config.analyzer()
        self._languages = dict(languages or {})
        # It does not refer to this encoder: the vocabulary's file would stay open until garbage is collected.
        self._table = ChunkTerms(self.analyzer, words.place, has_phrases=config.phrases > 0)
        self._read_texts = 0
        self._bucket_ids = np.full(BUCKETS, UNSEEN, dtype=np.int32)

    def encode_docs(self, texts: Sequence[str]) -> Encoded:
        """Return weights of tf / (tf + k1 · (1 - b + b · length / average_length)), as in Lucene, without idf."""
        return self.encode_in(self.languages_of(texts), texts)

    def languages_of(self, texts: Sequence[str]) -> list[str]:
        """Return the language in which each text is analysed."""
        return [self.analyzer.language_of(text) for text in texts]

    def encode_in(self, languages: Sequence[str], texts: Sequence[str]) -> Encoded:
        """Return what `encode_docs` returns, given the language of each text."""
        self._table.forget()
        chunks, phrases = self._read(texts, languages)
        lengths = self._lengths(chunks, len(texts))
        norms = self._norms(lengths / WHOLE_WORD)
        weights = _saturated(self._counts(chunks, len(texts)), norms)
        if self.config.phrases:
            counts = _counted(phrases.numbers, phrases.rows, None, (len(texts), len(self.words)))
            weights += self.config.phrases * _saturated(counts, norms)
        return Encoded(self._with_languages(weights, languages), lengths=_whole_words(lengths))

    def encode_queries(self, texts: Sequence[str]) -> Encoded:
        """Return how often each word of the vocabulary occurs in each query; other words are dropped."""
        counted = [sorted(self._query_counts(text).items()) for text in texts]
        starts = np.fromiter(accumulate(map(len, counted), initial=0), np.int32, len(texts) + 1)
        columns = np.fromiter((id for row in counted for id, _ in row), np.int32, starts[-1])
        counts = np.fromiter((count for row in counted for _, count in row), np.float32, starts[-1])
        return Encoded(Weights(counts, columns, starts, (len(texts), len(self.words))))

    def quick(self) -> Bm25:
        """Return itself: there is no quicker way."""
        return self

    def text_lengths(self, texts: Sequence[str]) -> Ints:
        """Return the number of words of each text without stop words."""
        return _whole_words(np.fromiter(map(self._length, texts), np.int64, len(texts)))

    def query_languages(self, text: str) -> Sequence[str]:
        """Return the languages in which a query is analysed: that of the index, or those that it may be in."""
        return [self.config.language] if self.config.language else recognised_among(text, self._languages)

    def phrases(self, text: str) -> Phrases:
        """Return the phrases of a text, as stems in order, by the token id of their bucket."""
        found: dict[int, tuple[str, ...]] = {}
        languages = dict.fromkeys([self.analyzer.language_of(text), *self.query_languages(text)])
        for language in languages if self.config.phrases else ():
            for pair in pairwise(self.analyzer.words(text, language)):
                id, phrase = self._phrase_id(pair), " ".join(pair)
                if id != ABSENT and phrase not in found.get(id, ()):
                    found[id] = (*found.get(id, ()), phrase)
        return found

    def token(self, id: int) -> str:
        """Return the word (stem) that has this token id."""
        return self.words.word(id)

    def word_ids(self, form: str) -> tuple[int, ...] | None:
        """Return the tokens under which documents may have a word in normal form; None if some leave it out."""
        languages = [self.config.language] if self.config.language else dict.fromkeys([ENGLISH, *self._languages])
        stems = [self.analyzer.stem(form, language) for language in languages]
        found = (self.words.find(stem) for stem in dict.fromkeys(stems) if stem is not None)
        return None if None in stems else tuple(id for id in found if id != ABSENT)

    def tokens(self, text: str, language: str, id_of: Callable[[str], int], goes_on: bool = False) -> Iterator[Token]:
        """Yield the tokens of a text in a language with their places; `id_of` finds or places their ids.

        If the text goes on behind what is given, its last word may be cut in two and is left out.
        """
        end = len(text) if goes_on else len(text) + 1
        found = self.analyzer.analyzed(text, language)
        words = [word for word in found if word.terms.stem is not None and word.end < end]
        for word in words:
            yield from (Token(id_of(term.token), word.start, word.end) for term in word.terms.terms)
        if self.config.phrases:
            yield from (_phrase_token(one, other, id_of) for one, other in pairwise(words))

    # --- documents

    def _read(self, texts: Sequence[str], languages: Sequence[str]) -> tuple[BatchChunks, BatchChunks]:
        """Return the chunks of the title, body and headings of each text, and its phrases."""
        self._read_texts += len(texts)
        if self._read_texts > COMPILED_FROM:
            chunks = self._scanned(texts, languages)
            return chunks, self._phrases_of(chunks) if self.config.phrases else flat([])
        fields: list[list[int]] = []
        phrases: list[list[int]] = []
        for text, language in zip(texts, languages, strict=True):  # so that token ids do not depend on the batch
            fields += (self._table.numbered(field, language) for field in fields_of(text))
            phrases.append(self._doc_phrases([*fields[-3], *fields[-2]]) if self.config.phrases else [])
        return flat(fields), flat(phrases)

    def _scanned(self, texts: Sequence[str], languages: Sequence[str]) -> BatchChunks:
        """Return the chunks of all fields by compiled loops, which read consecutive texts of a language at once."""
        found, row = [flat([])], 0
        for language, run in groupby(range(len(texts)), languages.__getitem__):
            fields = [field for text in run for field in fields_of(texts[text])]
            numbers, rows = self._table.scanned(fields, language)
            found.append(BatchChunks(numbers, rows + np.int32(row)))
            row += len(fields)
        return BatchChunks(*map(np.concatenate, zip(*found, strict=True)))

    def _doc_phrases(self, chunks: Sequence[int]) -> list[int]:
        """Return the token id of each phrase of a document; a new one is placed in the vocabulary."""
        hashes = self._table.hashes(chunks)
        found: list[int] = self._placed(_bucket(hashes[:-1], hashes[1:])).tolist()
        return found

    def _phrases_of(self, chunks: BatchChunks) -> BatchChunks:
        """Return the token id of each phrase of many documents, and the document of each."""
        is_text = chunks.rows % FIELDS != HEADINGS
        hashes, counts = self._table.all_hashes(chunks.numbers[is_text])
        rows = np.repeat(chunks.rows[is_text] // FIELDS, counts)
        same = rows[1:] == rows[:-1]
        return BatchChunks(self._placed(_bucket(hashes[:-1], hashes[1:])[same]), rows[1:][same])

    def _placed(self, buckets: npt.NDArray[np.uint64]) -> IdArray:
        """Return the token ids of buckets; new ones are placed in the vocabulary as they come."""
        ids = self._bucket_ids[buckets]
        if (ids == UNSEEN).any():
            for new in dict.fromkeys(buckets[ids == UNSEEN].tolist()):
                self._bucket_ids[new] = self.words.place(_name(new))
            ids = self._bucket_ids[buckets]
        return ids

    def _norms(self, lengths: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        return self.config.k1 * (1 - self.config.b + self.config.b * lengths / self.config.average_length)

    def _lengths(self, chunks: BatchChunks, texts: int) -> Ints:
        """Return the length of each text, with its title and without the headings."""
        title, body, _ = self._table.lengths(chunks, FIELDS * texts).reshape(texts, FIELDS).T
        return title + body

    def _counts(self, chunks: BatchChunks, texts: int) -> sp.csr_array:
        """Return how often each text has each token (texts, vocabulary), counting each field so many times."""
        ids, weights, rows = self._table.terms(chunks)
        times = np.array([self.config.title, 1.0, self.config.heading], np.float32)
        return _counted(ids, rows // FIELDS, times[rows % FIELDS] * weights, (texts, len(self.words)))

    def _with_languages(self, weights: sp.csr_array, languages: Sequence[str]) -> sp.csr_array:
        """Return the weights, with the token of its language for each text that is not English."""
        rows = [row for row, language in enumerate(languages) if language != ENGLISH and not self.config.language]
        if not rows:
            return weights
        ids = np.array([self.words.place(f"{LANGUAGE}{languages[row]}") for row in rows], dtype=np.int32)
        shape = (len(languages), len(self.words))
        wide = csr((weights.data, weights.indices, weights.indptr), shape)
        counts = _counted(ids, np.array(rows, np.int32), np.full(len(rows), LANGUAGE_WEIGHT, np.float32), shape)
        return wide + counts

    def _length(self, text: str) -> int:
        language, (title, body, _) = self.analyzer.language_of(text), fields_of(text)
        forms = [*self.analyzer.split(title), *self.analyzer.split(body)]
        return sum(self.analyzer.terms(form, language).length for form in forms)

    # --- queries

    def _query_counts(self, text: str) -> dict[int, float]:
        """Return the known tokens of a query with their weights, the largest if it is analysed in several languages."""
        counts: dict[int, float] = {}
        for language in self.query_languages(text):
            for id, count in self._counts_in(text, language).items():
                counts[id] = max(count, counts.get(id, 0.0))
        return {id: count for id, count in counts.items() if id > ABSENT and count > 0}

    def _counts_in(self, text: str, language: str) -> dict[int, float]:
        counts: dict[int, float] = defaultdict(float)
        words = [self.analyzer.terms(form, language) for form in self.analyzer.split(text)]
        for word in words:
            for term in word.terms:
                counts[self.words.find(term.token)] += term.in_queries
        if self.config.phrases:
            stems = [word.stem for word in words if word.stem is not None]
            for pair in pairwise(stems):
                counts[self._phrase_id(pair)] += 1
        return counts

    def _phrase_id(self, pair: tuple[str, str]) -> int:
        return self.words.find(_name(_bucket(*map(stem_hash, pair))))


def idf(df: npt.NDArray[Any], docs: int) -> Floats:
    """Return ln(1 + (docs - df + 0.5) / (df + 0.5)) of each document frequency, as in Lucene, float32."""
    return np.log1p((docs - df + 0.5) / (df + 0.5)).astype(np.float32)


def _bucket(one: Hash, other: Hash) -> Hash:
    """Return the bucket of a phrase from the hashes of its words: integers, or uint64 arrays of them."""
    mixed: Any = (one * 0x9E3779B1 + other) & 0xFFFFFFFF
    mixed = ((mixed ^ mixed >> 15) * 0x85EBCA6B) & 0xFFFFFFFF
    bucket: Hash = (mixed ^ mixed >> 13) * BUCKETS >> 32
    return bucket


def _name(bucket: int) -> str:
    """Return the name of a bucket in the vocabulary, which no word has."""
    return f"{PHRASE}{bucket:x}"


def _saturated(counts: sp.csr_array, norms: npt.NDArray[np.floating]) -> sp.csr_array:
    """Return tf / (tf + norm of the row) for each count tf."""
    spread = np.repeat(norms, np.diff(counts.indptr))  # (nnz,)
    counts.data = (counts.data / (counts.data + spread)).astype(np.float32)
    return counts


def _counted(ids: IdArray, rows: IdArray, weights: Floats | None, shape: tuple[int, int]) -> sp.csr_array:
    """Return the sums of the weights of each token in each row; ids of -1 are left out."""
    import scipy.sparse as sp

    known = ids > ABSENT
    data = np.ones(len(ids), np.float32) if weights is None else weights
    counts = sp.coo_array((data[known], (rows[known], ids[known])), shape).tocsr()
    counts.sum_duplicates()
    return csr((counts.data, counts.indices.astype(np.int32), counts.indptr.astype(np.int32)), shape)


def _phrase_token(one: AnalyzedWord, other: AnalyzedWord, id_of: Callable[[str], int]) -> Token:
    hashes = (stem_hash(word.terms.stem or "") for word in (one, other))
    return Token(id_of(_name(_bucket(*hashes))), one.start, other.end)


def _whole_words(lengths: Ints) -> Ints:
    return np.rint(lengths / WHOLE_WORD).astype(np.int64)
