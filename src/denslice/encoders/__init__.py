"""Encoders: text, or something ready, to lexical weights. An index names its encoder and keeps the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from denslice.encoders.bm25 import Bm25, Bm25Config
from denslice.encoders.mini import EMBEDDED, is_exported, load_mini, mini_options
from denslice.encoders.ready_vectors import ReadyVectors, VectorsConfig
from denslice.encoders.torch.loader import load_model, model_options
from denslice.store.vocabulary import WordIds
from denslice.vectors import Encoded, Phrases


class Encoder(Protocol):
    """What an index asks of an encoder."""

    uses_idf: bool  # the query's weights are to be multiplied by the collection's idf
    lam: float  # λ: what the dense score is multiplied by before it is added to the lexical one
    reads: str  # what it encodes of a document: "text" or "vector"
    batch_docs: int  # how many documents it is best given at a time

    def encode_docs(self, items: Sequence[Any]) -> Encoded:
        """Lexical weights (n, vocabulary) of documents; a growing vocabulary takes in their new tokens."""
        ...

    def encode_queries(self, items: Sequence[Any]) -> Encoded:
        """Lexical weights (n, vocabulary) of queries, over tokens that are known."""
        ...

    def token(self, id: int) -> str:
        """The token with this id, for people to read."""
        ...

    def phrases(self, text: str) -> Phrases:
        """The phrases of a text by the token they are known by, which others may share; none where tokens are words."""
        ...


def checked_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The encoder's settings in full; an unknown encoder or setting is an InputError. Other names are models."""
    if name == "bm25":
        return Bm25Config.from_json(dict(options)).to_json()
    if name == "vectors":
        return VectorsConfig.from_json(options).to_json()
    if name == EMBEDDED or is_exported(name):
        return mini_options(name, options)
    return model_options(name, options)


def load(name: str, options: Mapping[str, Any], words: WordIds) -> Encoder:
    """The encoder over this vocabulary."""
    if name == "bm25":
        return Bm25(Bm25Config.from_json(dict(options)), words)
    if name == "vectors":
        return ReadyVectors(VectorsConfig.from_json(options), words)
    if name == EMBEDDED or is_exported(options["model"]):
        return load_mini(options, words)
    return load_model(options)
