"""Transformer models as an index's encoder: found by folder or hub id, loaded once, told apart by their contents.

A hub id names a place, and what lies there changes. So an index keeps the revision it was made with, loads that one
again, and checks the files as it does those of a folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from denslice.encoders.torch.hub import NOT_DOWNLOADED, hub_snapshot
from denslice.errors import InputError

if TYPE_CHECKING:
    from denslice.encoders.torch.transformer_encoder import TransformerEncoder

BERT_VOCABULARY, BERT_UNUSED = 30_522, 570  # the paper leaves out BERT's first 570 tokens: the rest are 768 · 39
SAFETENSORS, PICKLED = ".safetensors", ".bin"
MODEL_ENDINGS = (SAFETENSORS, PICKLED, ".json", ".txt", ".model")  # what a model is loaded from, and not its card


def model_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """What an index remembers of a model: its place, vocabulary, tokens to skip, and what tells it from others."""
    if options:
        raise InputError(f"a model has no setting {', '.join(sorted(options))}; its folder holds them all")
    place = _place(name)
    folder = _folder(place, None)
    encoder = _loaded(folder, place)
    facts = {"vocab": encoder.vocab, "skip": tokens_to_skip(encoder.vocab)}
    revision = None if Path(place).is_absolute() else folder.name  # of a hub id: the name of its snapshot
    return {"model": place, "revision": revision, **facts, "fingerprint": fingerprint(folder)}


def load_model(options: Mapping[str, Any]) -> TransformerEncoder:
    """The model an index was made with; InputError if another one has taken its place."""
    place, revision = str(options["model"]), options.get("revision")
    if not Path(place).is_absolute() and revision is None:
        raise InputError(f"{place}: this index does not say which revision it was made with; make a new index")
    folder = _folder(place, revision)
    if options["fingerprint"] != fingerprint(folder):
        told = f"{place} at revision {revision} in {folder}" if revision else place
        raise InputError(f"{told}: is not the model this index was made with; put it back or make a new index")
    return _loaded(folder, place)


def tokens_to_skip(vocab: int) -> int:
    """How many leading tokens of a vocabulary stand for no word: 570 of BERT's, as in the paper."""
    return BERT_UNUSED if vocab == BERT_VOCABULARY else 0


@cache
def fingerprint(folder: Path) -> str:
    """A digest of the files that a model in this folder is loaded from."""
    digest = hashlib.sha256()
    for path in _contents(folder):
        digest.update(path.relative_to(folder).as_posix().encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _contents(folder: Path) -> list[Path]:
    """A model's files. What other programs put beside them, as they do in the hub's cache, makes no other model."""
    found = sorted(file for file in folder.rglob("*") if file.suffix in MODEL_ENDINGS and file.is_file())
    found = [file for file in found if not _is_aside(file.relative_to(folder).as_posix())]
    is_safe = any(file.suffix == SAFETENSORS for file in found)
    return [file for file in found if not (is_safe and file.suffix == PICKLED)]


def _is_aside(path: str) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in NOT_DOWNLOADED)


def _place(name: str) -> str:
    if Path(name).is_dir():
        return str(Path(name).resolve())
    if "/" in name and not Path(name).is_absolute() and not name.startswith("."):
        return name  # a hub id
    raise InputError(f"unknown encoder {name!r}: it is none of mini, bm25 and vectors, nor a model's folder or hub id")


def _folder(place: str, revision: str | None) -> Path:
    """Where the model's files are; of a hub id in the revision given, or the newest."""
    return Path(place) if Path(place).is_absolute() else hub_snapshot(place, revision)


@cache
def _loaded(folder: Path, name: str) -> TransformerEncoder:
    from denslice.encoders.torch.transformer_encoder import TransformerEncoder

    return TransformerEncoder.load(folder, name=name)
