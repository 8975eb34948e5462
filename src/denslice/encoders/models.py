"""Transformer models as an index's encoder: found by folder or hub id, loaded once, told apart by their contents."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from denslice.errors import InputError

if TYPE_CHECKING:
    from denslice.encoders.transformer import TransformerEncoder

BERT_VOCABULARY, BERT_UNUSED = 30_522, 570  # the paper leaves out BERT's first 570 tokens: the rest are 768 · 39
CONTENTS = ("*.safetensors", "*.bin", "*.json", "*.txt")


def model_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """What an index remembers of a model: its place, its vocabulary, how many tokens to skip, and a fingerprint."""
    if options:
        raise InputError(f"a model has no setting {', '.join(sorted(options))}; its folder holds them all")
    place = _place(name)
    encoder = _loaded(place)
    facts = {"vocab": encoder.vocab, "skip": tokens_to_skip(encoder.vocab)}
    return {"model": place, **facts, "fingerprint": fingerprint(place)}


def load_model(options: Mapping[str, Any]) -> TransformerEncoder:
    """The model an index was made with; InputError if another one has taken its place."""
    place = str(options["model"])
    if options["fingerprint"] != fingerprint(place):
        raise InputError(f"{place}: is not the model this index was made with; put it back or make a new index")
    return _loaded(place)


def tokens_to_skip(vocab: int) -> int:
    """How many leading tokens of a vocabulary stand for no word: 570 of BERT's, as in the paper."""
    return BERT_UNUSED if vocab == BERT_VOCABULARY else 0


@cache
def fingerprint(place: str) -> str | None:
    """A digest of what a folder holds but for its card; None for a hub id, which names its own contents."""
    if not Path(place).is_dir():
        return None
    digest = hashlib.sha256()
    for path in sorted(file for pattern in CONTENTS for file in Path(place).rglob(pattern)):
        digest.update(path.relative_to(place).as_posix().encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _place(name: str) -> str:
    if Path(name).is_dir():
        return str(Path(name).resolve())
    if "/" in name and not Path(name).is_absolute() and not name.startswith("."):
        return name  # a hub id
    raise InputError(f"unknown encoder {name!r}: it is none of mini, bm25 and vectors, nor a model's folder or hub id")


@cache
def _loaded(place: str) -> TransformerEncoder:
    from denslice.encoders.transformer import TransformerEncoder

    return TransformerEncoder.load(place)
