"""The protocol of encoders, which turn texts or ready vectors into weights, and the registry of those there are.

A new encoder is a module of its own and a line in ENCODERS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from denslice.encoders.bm25 import Bm25, Bm25Config
from denslice.encoders.mini import (
    EMBEDDED,
    has_table,
    is_earlier,
    is_exported,
    known_to_model,
    load_mini,
    mini_options,
    table_scales,
)
from denslice.encoders.ready_vectors import ReadyVectors, VectorsConfig
from denslice.encoders.torch.loader import load_model, model_options
from denslice.store.vocabulary import WordIds
from denslice.vectors import Encoded, Ints, Phrases

Languages = Mapping[str, int] | None


class DocEncoder(Protocol):
    """What encoding documents asks of an encoder."""

    reads: str  # the part of a document that it encodes: "text" or "vector"
    batch_docs: int  # how many documents it encodes best at a time

    def encode_docs(self, items: Sequence[Any]) -> Encoded:
        """Return the lexical weights (n, vocabulary) of documents; a growing vocabulary takes in their new tokens."""

    def text_lengths(self, texts: Sequence[str]) -> Ints | None:
        """Return the lengths that `encode_docs` returns for texts, without encoding them."""


class Encoder(DocEncoder, Protocol):
    """All that building an index and searching it ask of an encoder."""

    uses_idf: bool  # search multiplies the query's weights by the collection's idf
    lam: float  # λ, the factor of the dense score, if a search gives none
    has_model: bool  # a model reads each text, which takes much longer than to look up what an index stores of it

    def encode_queries(self, items: Sequence[Any]) -> Encoded:
        """Return the lexical weights (n, vocabulary) of queries, over the tokens that the vocabulary has."""

    def quick(self) -> Encoder:
        """Return an encoder that reads texts much quicker into the same vectors; itself if it is quick already."""

    def token(self, id: int) -> str:
        """Return the token with this id, for people to read."""

    def word_ids(self, word: str) -> tuple[int, ...] | None:
        """Return the tokens of a word that the analyzer split off a text; None if tokens do not tell who has it."""

    def phrases(self, text: str) -> Phrases:
        """Return the phrases of a text by token id, which several phrases may share; none if tokens are words only."""


class EncoderKind(NamedTuple):
    """How an encoder's options are checked when an index is created, and how it is loaded when one is opened."""

    checked_options: Callable[[str, Mapping[str, Any]], dict[str, Any]]  # of its name and the options given
    load: Callable[[Mapping[str, Any], WordIds, Languages], Encoder]  # with the options that the index keeps


ENCODERS = {
    "bm25": EncoderKind(
        lambda name, options: Bm25Config.from_json(options).to_json(),
        lambda options, words, languages: Bm25(Bm25Config.from_json({"analysis": 1, **options}), words, languages),
    ),
    "vectors": EncoderKind(
        lambda name, options: VectorsConfig.from_json(options).to_json(),
        lambda options, words, languages: ReadyVectors(VectorsConfig.from_json(options), words),
    ),
    EMBEDDED: EncoderKind(mini_options, load_mini),
}
EXPORTED_MODEL = EncoderKind(mini_options, load_mini)
TORCH_MODEL = EncoderKind(model_options, lambda options, words, languages: load_model(options))


def checked_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return all options of an encoder; raise InputError if the encoder or an option is not known."""
    return _kind(name, name).checked_options(name, options)


def load(name: str, options: Mapping[str, Any], words: WordIds, languages: Languages = None) -> Encoder:
    """Return the encoder with the options that `checked_options` returned, over this vocabulary.

    To encode queries it should know the languages of the collection, with the number of their passages.
    """
    return _kind(name, options.get("model", name)).load(options, words, languages)


def model_languages(name: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the languages that the model of an encoder knows; none if it has no model, or one of all languages."""
    model = options.get("model", name)
    return known_to_model(model) if name == EMBEDDED or is_exported(model) else ()


def is_quicker(name: str, options: Mapping[str, Any]) -> bool:
    """Return whether an encoder has a quick side, which reads documents quicker than the encoder itself."""
    model = options.get("model", name)
    return (name == EMBEDDED or is_exported(model)) and has_table(model)


def quick_scales(name: str, options: Mapping[str, Any]) -> tuple[float, float]:
    """Return what the words and the vector of a query are multiplied by for documents that were read quickly."""
    return table_scales(options.get("model", name))


def has_earlier_model(name: str, options: Mapping[str, Any]) -> bool:
    """Return whether an index was made with an earlier edition of the embedded model: it is searched by words alone."""
    return name == EMBEDDED and is_earlier(options)


def _kind(name: str, model: str) -> EncoderKind:
    """Return the kind of the encoder of this name; any other name is the folder or the hub id of a model."""
    return ENCODERS.get(name) or (EXPORTED_MODEL if is_exported(model) else TORCH_MODEL)
