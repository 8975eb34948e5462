"""The loader of transformer models for an index: it finds them by folder or hub id and checks their fingerprint.

The model behind a hub id can change. So an index keeps the revision that it was made with, loads that revision again,
and checks its files like those of a folder.
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

BERT_VOCABULARY, BERT_UNUSED = 30_522, 570  # the paper skips BERT's first 570 tokens, which leaves 768 · 39
SAFETENSORS, PICKLED = ".safetensors", ".bin"
MODEL_ENDINGS = (SAFETENSORS, PICKLED, ".json", ".txt", ".model")  # of the files that a model is loaded from


def model_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that an index keeps: the model's place and revision, vocabulary, skip and fingerprint."""
    if options:
        raise InputError(f"a model takes no setting {', '.join(sorted(options))}; its folder holds all settings")
    place = _place(name)
    folder = _folder(place, None)
    encoder = _loaded(folder, place)
    facts = {"vocab": encoder.vocab, "skip": tokens_to_skip(encoder.vocab)}
    revision = None if Path(place).is_absolute() else folder.name  # a snapshot has the name of its revision
    return {"model": place, "revision": revision, **facts, "fingerprint": fingerprint(folder)}


def load_model(options: Mapping[str, Any]) -> TransformerEncoder:
    """Return the model of an index; raise InputError if its files have changed."""
    place, revision = str(options["model"]), options.get("revision")
    if not Path(place).is_absolute() and revision is None:
        raise InputError(f"{place}: this index does not name the model's revision; make a new index")
    folder = _folder(place, revision)
    if options["fingerprint"] != fingerprint(folder):
        found = f"{place} at revision {revision} in {folder}" if revision else place
        raise InputError(f"{found}: is not the model this index was made with; put it back or make a new index")
    return _loaded(folder, place)


def tokens_to_skip(vocab: int) -> int:
    """Return how many leading tokens a slicing skips: 570 of BERT's, as in the paper, and 0 of other vocabularies."""
    return BERT_UNUSED if vocab == BERT_VOCABULARY else 0


@cache
def fingerprint(folder: Path) -> str:
    """Return a digest of the files that the model in this folder is loaded from."""
    digest = hashlib.sha256()
    for path in _contents(folder):
        digest.update(path.relative_to(folder).as_posix().encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _contents(folder: Path) -> list[Path]:
    """Return a model's files, without those that other programs put beside them, as in the hub's cache."""
    found = sorted(file for file in folder.rglob("*") if file.suffix in MODEL_ENDINGS and file.is_file())
    names = {file: file.relative_to(folder).as_posix() for file in found}
    found = [file for file in found if not any(fnmatchcase(names[file], pattern) for pattern in NOT_DOWNLOADED)]
    is_safe = any(file.suffix == SAFETENSORS for file in found)
    return [file for file in found if not (is_safe and file.suffix == PICKLED)]


def _place(name: str) -> str:
    if Path(name).is_dir():
        return str(Path(name).resolve())
    if "/" in name and not Path(name).is_absolute() and not name.startswith("."):
        return name  # a hub id
    raise InputError(f"unknown encoder {name!r}: it is none of mini, bm25 and vectors, nor a model's folder or hub id")


def _folder(place: str, revision: str | None) -> Path:
    """Return the folder of the model; for a hub id that of this revision, or the newest."""
    return Path(place) if Path(place).is_absolute() else hub_snapshot(place, revision)


@cache
def _loaded(folder: Path, name: str) -> TransformerEncoder:
    from denslice.encoders.torch.transformer_encoder import TransformerEncoder

    return TransformerEncoder.load(folder, name=name)
