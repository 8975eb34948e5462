"""Mini: BM25 weights times a contextual importance of each word, and a dense vector, from one small ONNX model.

The model in the package is the default encoder. A folder that `denslice export` wrote can replace it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from denslice.cores import cores
from denslice.encoders.analysis import has_words, well_formed
from denslice.encoders.bm25 import Bm25, Bm25Config, Token
from denslice.encoders.model_config import CONFIG_FILE, ModelConfig
from denslice.encoders.word_pieces import DOC_SIDE, QUERY_SIDE, LocatedWords, locate_words, occurrences, pooled
from denslice.errors import InputError
from denslice.store.vocabulary import WordIds
from denslice.vectors import Encoded, Floats, Ints, Phrases, Weights

if TYPE_CHECKING:
    from tokenizers import Encoding

EMBEDDED = "mini"
ONNX_FILE, TOKENIZER_FILE = "model.onnx", "tokenizer.json"
MODEL_FILES = (ONNX_FILE, TOKENIZER_FILE, CONFIG_FILE)
CHARACTERS_PER_PIECE = 16  # times the longest input: text behind it is weighted by BM25 only


class ModelOutput(NamedTuple):
    """The model's output for one text."""

    spans: list[tuple[str, int, int]]  # the words that it read, with start and end
    offsets: list[tuple[int, int]]  # of its word pieces
    importance: Floats  # (L, 2) of its word pieces, as part of a document and of a query
    dense: Floats  # (H,)


class Mini:
    """Encodes texts with a model folder, over a vocabulary of stemmed words that grows with the documents.

    The weight of a word is its BM25 weight times its importance in a document, and its count times its importance in a
    query; search multiplies by idf. The importance of a word or phrase is the mean over the pieces it spans. Words
    behind the model's last piece keep their BM25 weight.
    """

    reads = "text"
    uses_idf = True
    batch_docs = 128
    has_model = True

    def __init__(self, model: OnnxModel, config: Bm25Config, words: WordIds) -> None:
        self._model = model
        self._bm25 = Bm25(config, words)
        self.lam = model.config.lam

    def encode_docs(self, texts: Sequence[str]) -> Encoded:
        """Return BM25 weights times each word's importance, and dense vectors."""
        return self._weighed(self._bm25.encode_docs(texts), texts, DOC_SIDE, self._bm25.doc_tokens)

    def encode_queries(self, texts: Sequence[str]) -> Encoded:
        """Return the count of each known word times its importance, and dense vectors."""
        return self._weighed(self._bm25.encode_queries(texts), texts, QUERY_SIDE, self._bm25.query_tokens)

    def text_lengths(self, texts: Sequence[str]) -> Ints:
        """Return the number of words of each text, which are those of BM25."""
        return self._bm25.text_lengths(texts)

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
        self, plain: Encoded, texts: Sequence[str], side: int, tokens: Callable[[Sequence[str]], Iterator[Token]]
    ) -> Encoded:
        read = list(self._model.read(texts, self._model.lengths[side], self._bm25.analyzer.spans))
        dense = np.array([one.dense for one in read], dtype=np.float32).reshape(len(texts), -1)
        weights = plain.weights
        if not len(weights.data):
            return replace(plain, dense=dense)
        where = occurrences(weights, [_located(one, tokens) for one in read])
        importance = pooled(where, [one.importance[:, side] for one in read], len(weights.data))
        weighed = Weights(weights.data * importance, weights.indices, weights.indptr, weights.shape)
        return replace(plain, weights=weighed, dense=dense)


class OnnxModel:
    """A model folder's graph and tokenizer. Each text is encoded by itself, one on each core at a time."""

    def __init__(self, folder: Path) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        self.config = _config(folder)
        self.lengths = (self.config.max_length, self.config.query_length)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # a text on each core is faster
        self._cores = cores()
        path = str(folder / ONNX_FILE)
        self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self._tokenizers = [Tokenizer.from_file(str(folder / TOKENIZER_FILE)) for _ in self.lengths]
        self._unknown = self._tokenizers[0].token_to_id(getattr(self._tokenizers[0].model, "unk_token", None) or "")
        for tokenizer, length in zip(self._tokenizers, self.lengths, strict=True):
            tokenizer.enable_truncation(length)

    def read(self, texts: Sequence[str], length: int, spans: Callable[[str], Any]) -> Iterator[ModelOutput]:
        """Yield the model's output for the beginning of each text, in order."""
        if len(texts) == 1:
            yield self._read(texts[0], length, spans)
            return
        with ThreadPoolExecutor(self._cores) as pool:
            yield from pool.map(lambda text: self._read(text, length, spans), texts)

    def _read(self, text: str, length: int, spans: Callable[[str], Any]) -> ModelOutput:
        beginning = well_formed(text[: CHARACTERS_PER_PIECE * length].lower())
        pieces = self._tokenizers[self.lengths.index(length)].encode(beginning)
        ids = np.array([pieces.ids], dtype=np.int64)
        dense, importance = self._session.run(("dense", "importance"), {"ids": ids})
        words = spans(beginning)
        if len(text) > CHARACTERS_PER_PIECE * length and words and words[-1][2] == len(beginning):
            words.pop()  # it may be cut in two
        return ModelOutput(words, pieces.offsets, importance[0], dense[0] * self._has_token(beginning, pieces))

    def _has_token(self, text: str, pieces: Encoding) -> bool:
        """Return whether the model knows a piece that is not punctuation; the vector of other texts is 0."""
        read = zip(pieces.ids, pieces.special_tokens_mask, pieces.offsets, strict=True)
        return any(id != self._unknown and not mark and has_words(text[slice(*at)]) for id, mark, at in read)


def mini_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that an index keeps: BM25's settings, the model's folder if exported, and a fingerprint."""
    folder = _folder(name)
    fingerprint = _fingerprint(folder)
    config = _config(folder)
    words = {"b": config.b, "average_length": config.average_length, "phrases": config.phrases}
    settings = Bm25Config.from_json(words | dict(options)).to_json()
    place = {} if name == EMBEDDED else {"model": str(folder.resolve())}
    return {**settings, **place, "fingerprint": fingerprint}


def load_mini(options: Mapping[str, Any], words: WordIds) -> Mini:
    """Return the encoder of an index; raise InputError if its model has changed."""
    settings = dict(options)
    name = settings.pop("model", EMBEDDED)
    folder = _folder(name)
    if settings.pop("fingerprint") != _fingerprint(folder):
        if name == EMBEDDED:
            problem = "this index was made with other weights of the embedded model"
            raise InputError(f"{problem}; run `denslice upgrade` on it, which encodes its texts again")
        raise InputError(f"{folder}: is not the model this index was made with; put it back or make a new index")
    return Mini(_loaded(folder), Bm25Config.from_json(settings), words)


def is_exported(name: str) -> bool:
    """Return whether this is a folder with an exported model."""
    return (Path(name) / ONNX_FILE).is_file()


def _folder(name: str) -> Path:
    return Path(str(files("denslice"))) / "mini" if name == EMBEDDED else Path(name)


def _config(folder: Path) -> ModelConfig:
    try:
        return ModelConfig.from_json(json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8")))
    except (InputError, ValueError, OSError) as error:
        raise InputError(f"the model folder {folder} cannot be loaded: {CONFIG_FILE}: {error}") from error


@cache
def _loaded(folder: Path) -> OnnxModel:
    """Return the model; raise InputError if its files cannot be loaded."""
    try:
        return OnnxModel(folder)
    except InputError:
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"the model folder {folder} cannot be loaded: {reason}") from error


@cache
def _fingerprint(folder: Path) -> str:
    digest = hashlib.sha256()
    for name in MODEL_FILES:
        if not (folder / name).is_file():
            raise InputError(f"the model folder {folder} has no {name}")
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()


def _located(read: ModelOutput, tokens: Callable[[Sequence[str]], Iterator[Token]]) -> LocatedWords:
    found = list(tokens([word for word, _, _ in read.spans]))
    places = [(read.spans[token.first][1], read.spans[token.last][2]) for token in found]
    return locate_words([token.id for token in found], places, read.offsets)
