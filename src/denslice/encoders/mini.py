"""Mini: BM25 weights times a contextual importance of each word, and a dense vector, from one small ONNX model.

The model in the package is the default encoder. A folder that `denslice export` wrote can replace it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from denslice.encoders.bm25 import Bm25, Bm25Config
from denslice.encoders.onnx_model import ONNX_FILE, ModelOutput, OnnxModel, model_config, model_files
from denslice.encoders.text_embedder import TextVectors
from denslice.encoders.word_pieces import DOC_SIDE, QUERY_SIDE, LocatedWords, locate_words, occurrences, pooled
from denslice.encoders.word_table import TABLE_FILE, TokenRows, WordTable
from denslice.errors import InputError
from denslice.store.vocabulary import WordIds
from denslice.vectors import Encoded, Floats, Ints, Phrases, Weights

EMBEDDED = "mini"
EARLIER = "this index was made with an earlier edition of the embedded model"
NO_PIECES: Floats = np.zeros(0, dtype=np.float32)
NO_OFFSETS = [(0, 0), (0, 0)]  # of the two special tokens


class Mini:
    """Encodes texts with a model folder, over a vocabulary of stemmed words that grows with the documents.

    The weight of a word is its BM25 weight times its importance in a document, and its count times its importance in a
    query; search multiplies by idf. The importance of a word or phrase is the mean over the pieces it spans. Words
    behind the model's last piece keep their BM25 weight. So do all words of a text in a language that the model does
    not know, which has no dense vector: there, words decide.
    """

    reads = "text"
    uses_idf = True
    batch_docs = 128
    has_model = True

    def __init__(
        self, model: OnnxModel, config: Bm25Config, words: WordIds, languages: Mapping[str, int] | None = None
    ) -> None:
        self._model = model
        self._bm25 = Bm25(config, words, languages)
        self.lam = model.config.lam

    def encode_docs(self, texts: Sequence[str]) -> Encoded:
        """Return BM25 weights times each word's importance, and dense vectors."""
        languages = self._bm25.languages_of(texts)
        plain, alone = self._bm25.encode_in(languages, texts), [[language] for language in languages]
        return self._weighed(plain, texts, alone, DOC_SIDE, self._bm25.words.place)

    def encode_queries(self, texts: Sequence[str]) -> Encoded:
        """Return the count of each known word times its importance, and dense vectors."""
        languages = [self._bm25.query_languages(text) for text in texts]
        return self._weighed(self._bm25.encode_queries(texts), texts, languages, QUERY_SIDE, self._bm25.words.find)

    @property
    def dimensions(self) -> int | None:
        """The width of the dense vectors."""
        return self._model.dimensions

    def embed_docs(self, texts: Sequence[str]) -> TextVectors:
        """Return what the model makes of texts in any language. Queries differ only in how much of a text is read."""
        return self._vectors(self._read(texts, DOC_SIDE))

    def embed_queries(self, texts: Sequence[str]) -> TextVectors:
        """Return what the model makes of queries in any language."""
        return self._vectors(self._read(texts, QUERY_SIDE))

    def _vectors(self, read: Iterator[ModelOutput]) -> TextVectors:
        found = list(read)
        vectors = np.array([one.dense for one in found], np.float32).reshape(len(found), self._model.dimensions)
        return TextVectors(vectors, tuple(len(one.offsets) for one in found))

    def quick(self) -> Mini:
        """Return the encoder that reads texts by the model's table of words; raise InputError if it has none."""
        return self._quick_side

    @cached_property
    def _quick_side(self) -> QuickMini:
        return QuickMini(self, _table(self._model.folder))

    def text_lengths(self, texts: Sequence[str]) -> Ints:
        """Return the number of words of each text, which are those of BM25."""
        return self._bm25.text_lengths(texts)

    def query_languages(self, text: str) -> Sequence[str]:
        """Return the languages in which a query is analysed."""
        return self._bm25.query_languages(text)

    def token(self, id: int) -> str:
        """Return the word (stem) that has this token id."""
        return self._bm25.token(id)

    def word_ids(self, word: str) -> tuple[int, ...] | None:
        """Return the token of a word, which is that of BM25."""
        return self._bm25.word_ids(word)

    def phrases(self, text: str) -> Phrases:
        """Return the phrases of a text, which are those of BM25."""
        return self._bm25.phrases(text)

    def _weighed(
        self,
        plain: Encoded,
        texts: Sequence[str],
        languages: Sequence[Sequence[str]],
        side: int,
        id_of: Callable[[str], int],
    ) -> Encoded:
        known = [at for at, some in enumerate(languages) if self._model.knows(some)]
        read = dict(zip(known, self._read([texts[at] for at in known], side), strict=True))
        dense = np.zeros((len(texts), self._model.dimensions), dtype=np.float32)
        for at, one in read.items():
            dense[at] = one.dense
        weights = plain.weights
        if not len(weights.data) or not known:
            return replace(plain, dense=dense)
        located = [self._located(read.get(at), some, id_of) for at, some in enumerate(languages)]
        importances = [read[at].importance[:, side] if at in read else NO_PIECES for at in range(len(texts))]
        importance = pooled(occurrences(weights, located), importances, len(weights.data))
        weighed = Weights(weights.data * importance, weights.indices, weights.indptr, weights.shape)
        return replace(plain, weights=weighed, dense=dense)

    def _read(self, texts: Sequence[str], side: int) -> Iterator[ModelOutput]:
        if side == QUERY_SIDE:
            return self._model.read_queries(texts)
        return self._model.read(texts, self._model.config.max_length)

    def _located(self, read: ModelOutput | None, languages: Sequence[str], id_of: Callable[[str], int]) -> LocatedWords:
        """Return the words that the model read."""
        if read is None:
            return locate_words([], [], NO_OFFSETS)
        tokens = (self._bm25.tokens(read.beginning, language, id_of, read.goes_on) for language in languages)
        found = list(chain.from_iterable(tokens))
        return locate_words([token.id for token in found], [(one.start, one.end) for one in found], read.offsets)


class QuickMini(Mini):
    """Encodes texts without the model: words have their BM25 weights, and a table gives the dense vector."""

    batch_docs = Bm25.batch_docs

    def __init__(self, full: Mini, table: WordTable) -> None:
        self._model, self._bm25, self.lam = full._model, full._bm25, table.lam
        self._words = table
        self._rows = TokenRows(table, self._bm25.words)

    def encode_docs(self, texts: Sequence[str]) -> Encoded:
        """Return BM25 weights and quick vectors; as in Mini, a text in a language that is not known has none."""
        languages = self._bm25.languages_of(texts)
        plain = self._bm25.encode_in(languages, texts)
        dense = self._words.vectors(plain.lexical, self._rows.of(plain.lexical.indices))
        known = (self._model.knows([language]) for language in languages)
        return replace(plain, dense=dense * np.fromiter(known, np.bool_, len(texts))[:, None])

    def encode_queries(self, texts: Sequence[str]) -> Encoded:
        """Return the count of each known word, and quick vectors."""
        plain = self._bm25.encode_queries(texts)
        dense = self._words.vectors(plain.lexical, self._rows.of(plain.lexical.indices))
        known = (self._model.knows(self._bm25.query_languages(text)) for text in texts)
        return replace(plain, dense=dense * np.fromiter(known, np.bool_, len(texts))[:, None])

    def quick(self) -> Mini:
        """Return itself."""
        return self


class EarlierMini(Mini):
    """Searches an index of an earlier edition of the embedded model, which is not there any more, by its words.

    A query has the weights of BM25 and no dense vector. No document can be added.
    """

    def encode_docs(self, texts: Sequence[str]) -> Encoded:
        """Raise InputError: the vectors would not fit those of the index."""
        raise InputError(f"{EARLIER}; run `denslice upgrade` on it, which encodes its texts again")

    def encode_queries(self, texts: Sequence[str]) -> Encoded:
        """Return how often each word of the vocabulary occurs in each query."""
        return self._bm25.encode_queries(texts)

    @property
    def dimensions(self) -> None:
        """None: the vectors of the model that there is now would not fit those of the index."""

    def quick(self) -> Mini:
        """Return itself: no document can be added quickly either."""
        return self


def mini_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that an index keeps: BM25's settings, the model's folder if exported, and a fingerprint."""
    folder = _folder(name)
    fingerprint = _fingerprint(folder)
    config = model_config(folder)
    words = {"b": config.b, "average_length": config.average_length, "phrases": config.phrases}
    settings = Bm25Config.from_json(words | dict(options)).to_json()
    place = {} if name == EMBEDDED else {"model": str(folder.resolve())}
    return {**settings, **place, "fingerprint": fingerprint}


def load_mini(options: Mapping[str, Any], words: WordIds, languages: Mapping[str, int] | None = None) -> Mini:
    """Return the encoder of an index; raise InputError if it was made with another exported model."""
    settings = {name: value for name, value in options.items() if name not in ("model", "fingerprint")}
    folder = _folder(options.get("model", EMBEDDED))
    kind = EarlierMini if is_earlier(options) else Mini
    if kind is Mini and options["fingerprint"] != _fingerprint(folder):
        raise InputError(f"{folder}: is not the model this index was made with; put it back or make a new index")
    return kind(_model(folder), Bm25Config.from_json({"analysis": 1, **settings}), words, languages)


def is_earlier(options: Mapping[str, Any]) -> bool:
    """Return whether these are the options of an index of an earlier edition of the embedded model."""
    return "model" not in options and options["fingerprint"] != _fingerprint(_folder(EMBEDDED))


def known_to_model(name: str) -> tuple[str, ...]:
    """Return the languages that a model was trained on; none if it is not limited to any."""
    return model_config(_folder(name)).languages


def has_table(name: str) -> bool:
    """Return whether a model can read documents quickly."""
    return (_folder(name) / TABLE_FILE).is_file()


def table_scales(name: str) -> tuple[float, float]:
    """Return what the words and the vector of a query are multiplied by for documents that were read quickly."""
    table = _table(_folder(name))
    return table.word_scale, table.vector_scale


def is_exported(name: str) -> bool:
    """Return whether this is a folder with an exported model."""
    return (Path(name) / ONNX_FILE).is_file()


def _folder(name: str) -> Path:
    return Path(str(files("denslice"))) / "mini" if name == EMBEDDED else Path(name)


@cache
def _model(folder: Path) -> OnnxModel:
    return OnnxModel(folder)


@cache
def _table(folder: Path) -> WordTable:
    return WordTable.load(folder)


@cache
def _fingerprint(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in model_files(folder):
        digest.update(path.read_bytes())
    return digest.hexdigest()
