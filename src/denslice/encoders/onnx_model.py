"""OnnxModel: a model folder, whose graph reads a text in the pieces of one tokenizer, or of two."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from denslice.analysis.analyzer import has_words
from denslice.analysis.normal_forms import lower_case, well_formed
from denslice.cores import cores
from denslice.encoders.model_config import CONFIG_FILE, ModelConfig
from denslice.errors import InputError
from denslice.vectors import Floats

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

ONNX_FILE, TOKENIZER_FILE, SECOND_TOKENIZER_FILE = "model.onnx", "tokenizer.json", "second_tokenizer.json"
REMEMBERED_QUERIES = 1_024  # with a few kilobytes each
CHARACTERS_PER_PIECE = 16  # times the longest input: text behind it is weighted by BM25 only


class ModelOutput(NamedTuple):
    """The model's output for one text."""

    beginning: str  # what it read of the text
    goes_on: bool  # whether there is more of it
    offsets: list[tuple[int, int]]  # of its word pieces
    importance: Floats  # (L, 2) of its word pieces, as part of a document and of a query
    dense: Floats  # (H,)


class OnnxModel:
    """A model folder's graph and tokenizers. Each text is encoded by itself, one on each core at a time.

    They are loaded when the first text is read: at the quick level none is.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = model_config(folder)
        self._cores = cores()
        self._lock = Lock()
        self._read_query = lru_cache(REMEMBERED_QUERIES)(partial(self._read, length=self.config.query_length))

    @property
    def dimensions(self) -> int:
        """The width of its vectors."""
        return int(self._loaded.session.get_outputs()[0].shape[-1])

    @property
    def _loaded(self) -> _Loaded:
        if "_parts" not in vars(self):
            with self._lock:
                _ = self._parts
        return self._parts

    @cached_property
    def _parts(self) -> _Loaded:
        try:
            return _Loaded.of(self.folder, (self.config.max_length, self.config.query_length))
        except Exception as error:
            reason = str(error).partition("\n")[0]
            raise InputError(f"the model folder {self.folder} cannot be loaded: {reason}") from error

    def knows(self, languages: Sequence[str]) -> bool:
        """Return whether the model was trained on any of the languages."""
        return not self.config.languages or not set(languages).isdisjoint(self.config.languages)

    def read(self, texts: Sequence[str], length: int) -> Iterator[ModelOutput]:
        """Yield the model's output for the beginning of each text, in order."""
        return self._read_all(texts, length, partial(self._read, length=length))

    def read_queries(self, texts: Sequence[str]) -> Iterator[ModelOutput]:
        """Yield the model's output for the beginning of each query, in order; the latest queries are remembered."""
        return self._read_all(texts, self.config.query_length, self._read_query)

    def _read_all(
        self, texts: Sequence[str], length: int, read: Callable[[str, bool], ModelOutput]
    ) -> Iterator[ModelOutput]:
        longest = CHARACTERS_PER_PIECE * length
        beginnings, go_on = [str(text[:longest]) for text in texts], [len(text) > longest for text in texts]
        if len(texts) <= 1:
            yield from map(read, beginnings, go_on)
            return
        with ThreadPoolExecutor(self._cores) as pool:
            yield from pool.map(read, beginnings, go_on)

    def _read(self, beginning: str, goes_on: bool, length: int) -> ModelOutput:
        lower = well_formed(lower_case(beginning))
        loaded = self._loaded
        pieces = loaded.first[length].encode(lower)
        inputs = {"ids": np.array([pieces.ids], dtype=np.int64)}
        if loaded.second:  # it reads capitals
            inputs["second_ids"] = np.array([loaded.second[length].encode(well_formed(beginning)).ids], dtype=np.int64)
        dense, importance = loaded.session.run(("dense", "importance"), inputs)
        found = dense[0] * loaded.has_token(lower, pieces)
        for one in (found, importance):
            one.flags.writeable = False  # what is remembered is shared
        return ModelOutput(beginning, goes_on, pieces.offsets, importance[0], found)


class _Loaded(NamedTuple):
    """The graph of a model folder, and its tokenizers by the longest text that they read."""

    session: Any
    first: dict[int, Tokenizer]
    second: dict[int, Tokenizer]  # none if the graph has one body
    unknown: int | None  # the piece of what the first tokenizer does not know

    @classmethod
    def of(cls, folder: Path, lengths: Sequence[int]) -> _Loaded:
        """Load a folder."""
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # else it tells Microsoft which models are run, since 1.29
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # a text on each core is faster
        session = onnxruntime.InferenceSession(str(folder / ONNX_FILE), options, providers=["CPUExecutionProvider"])
        first = {length: _tokenizer(folder / TOKENIZER_FILE, length) for length in lengths}
        has_second = len(session.get_inputs()) > 1
        second = {length: _tokenizer(folder / SECOND_TOKENIZER_FILE, length) for length in lengths if has_second}
        tokenizer = first[lengths[0]]
        unknown = tokenizer.token_to_id(getattr(tokenizer.model, "unk_token", None) or "")
        return cls(session, first, second, unknown)

    def has_token(self, text: str, pieces: Encoding) -> bool:
        """Return whether the model knows a piece that is not punctuation; the vector of other texts is 0."""
        read = zip(pieces.ids, pieces.special_tokens_mask, pieces.offsets, strict=True)
        return any(id != self.unknown and not mark and has_words(text[slice(*at)]) for id, mark, at in read)


def model_config(folder: Path) -> ModelConfig:
    """Return the settings of a model folder; raise InputError if they cannot be read."""
    try:
        return ModelConfig.from_json(json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8")))
    except (InputError, ValueError, OSError) as error:
        raise InputError(f"the model folder {folder} cannot be loaded: {CONFIG_FILE}: {error}") from error


def model_files(folder: Path) -> list[Path]:
    """Return the files of a model folder; raise InputError if one is missing."""
    needed = [folder / name for name in (ONNX_FILE, TOKENIZER_FILE, CONFIG_FILE)]
    for path in needed:
        if not path.is_file():
            raise InputError(f"the model folder {folder} has no {path.name}")
    second = folder / SECOND_TOKENIZER_FILE
    return [*needed, second] if second.is_file() else needed


def _tokenizer(path: Path, length: int) -> Tokenizer:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.enable_truncation(length)
    tokenizer.encode_special_tokens = True  # </s> in a text is text
    return tokenizer
