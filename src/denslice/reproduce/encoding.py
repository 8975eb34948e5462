"""Encodes documents and queries once for each model, into a work folder that can be copied to other machines.

WORK/MODEL/docs-… and queries-… hold the vectors (encoded_rows.py) and about.json; docs-… also names the tokens. The
folder's name has a fingerprint of the texts and about.json one of the model, so that outdated vectors are never used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from denslice.encoders.bm25 import Bm25Config
from denslice.encoders.torch.loader import fingerprint, tokens_to_skip
from denslice.errors import InputError
from denslice.provenance import provenance
from denslice.reproduce import encoded_rows
from denslice.reproduce.collection import Collection
from denslice.reproduce.whole_bm25 import WholeBm25
from denslice.store.files import replace_file
from denslice.vectors import Encoded

if TYPE_CHECKING:
    from denslice.encoders.torch.transformer_encoder import TransformerEncoder

AT_ONCE = 4_096  # texts encoded before they are written
ABOUT = "about.json"
TOKENS = "tokens.json"
BM25 = "bm25"
PACKAGES = ("numpy", "scipy", "PyStemmer", "torch", "transformers", "tokenizers")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
Encode = Callable[[Sequence[str]], Encoded]
Progress = Callable[[int], None]


@dataclass(frozen=True)
class NamedModel:
    """A model of the command line: its name, and its folder, its hub id or `bm25`."""

    name: str
    place: str


@dataclass(frozen=True)
class Facts:
    """The properties of a model that searching its vectors depends on."""

    fingerprint: str
    lexical: str  # its head: splade, unicoil, bm25, or none
    dense: str  # cls, mean, or none
    vocab: int
    skip: int
    dimensions: int | None
    lam: float


@dataclass(frozen=True)
class Encodings:
    """A model's vectors of a collection's documents and queries, on disk."""

    name: str
    facts: Facts
    docs_folder: Path
    queries_folder: Path

    def doc_parts(self) -> Iterator[Encoded]:
        """Yield the documents' vectors, a few thousand at a time, in the collection's order."""
        return encoded_rows.read_rows(self.docs_folder, self.facts.vocab)

    def queries(self) -> Encoded:
        """Return the queries' vectors, in the collection's order."""
        return encoded_rows.read_all(self.queries_folder, self.facts.vocab)

    def tokens(self) -> list[str]:
        """Return the token of each id; its number, if vectors of an earlier version have no names."""
        path = self.docs_folder / TOKENS
        if not path.exists():
            return [f"#{id}" for id in range(self.facts.vocab)]
        try:
            found: list[str] = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{path}: damaged ({error}); remove {path.parent} and encode again") from None
        return found


@dataclass(frozen=True)
class _Texts:
    """Texts to encode, and the folder for their vectors."""

    folder: Path
    count: int
    texts: Callable[[], Iterator[str]]
    precision: encoded_rows.Precision  # of documents as in an index, of queries as in a search

    def missing(self) -> int:
        """Return how many texts are not encoded yet."""
        return sum(end - start for start, end in encoded_rows.gaps(self.folder, self.count))


def parsed_models(given: Sequence[str]) -> list[NamedModel]:
    """Parse `NAME=FOLDER`; `bm25` alone, or a folder alone, is its own name."""
    models = []
    for one in (one for several in given for one in several.split(",")):
        name, _, place = one.rpartition("=")
        name = name or Path(place).name
        if not place or not NAME.fullmatch(name):
            raise InputError(f"--models {one!r}: expected NAME=FOLDER, the name of letters, digits and . _ -")
        models.append(NamedModel(name, place))
    names = [model.name for model in models]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InputError(f"--models names {min(twice)!r} twice")
    return models


def encode(
    collection: Collection,
    model: NamedModel,
    work: Path,
    device: str | None = None,
    batch: int | None = None,
    progress: Progress | None = None,
) -> Encodings:
    """Return the model's vectors of the collection; only what the work folder lacks is encoded.

    If nothing is missing, the model itself is not needed; if it exists, it must be the one that encoded the texts.
    """
    docs, queries = _texts(collection, model, work)
    facts = _known(model, docs, queries)
    if facts is None or docs.missing() or queries.missing():
        encoder = _load(model, collection, device, batch)
        loaded = _facts(model, encoder)
        if facts not in (None, loaded):  # of a hub id this is known only once it is loaded
            raise _another(docs.folder, model)
        facts = loaded
        _encode_missing(queries, facts, encoder.encode_queries, None)
        _name_tokens(docs.folder, [encoder.token(id) for id in range(facts.vocab)])
        _encode_missing(docs, facts, encoder.encode_docs, progress)
    return Encodings(model.name, facts, docs.folder, queries.folder)


def missing_docs(collection: Collection, model: NamedModel, work: Path) -> int:
    """Return how many documents the model has not encoded yet."""
    return _texts(collection, model, work)[0].missing()


def _texts(collection: Collection, model: NamedModel, work: Path) -> tuple[_Texts, _Texts]:
    docs = work / model.name / f"docs-{collection.docs_fingerprint[:12]}"
    queries = work / model.name / f"queries-{collection.queries_fingerprint[:12]}"
    asked = [query.text for query in collection.queries]
    return (
        _Texts(docs, len(collection.doc_ids), collection.doc_texts, np.float16),
        _Texts(queries, len(asked), lambda: iter(asked), np.float32),
    )


# --- what the work folder has


def _known(model: NamedModel, *several: _Texts) -> Facts | None:
    """Return what the work folder says about the model; raise InputError if that is another model."""
    here = _fingerprint(model)
    known: Facts | None = None
    for texts in several:
        found = _read_about(texts.folder / ABOUT)
        if found is None:
            continue
        if here not in (None, found.fingerprint) or (known and known != found):
            raise _another(texts.folder, model)
        known = found
    return known


def _another(folder: Path, model: NamedModel) -> InputError:
    told = f"was encoded by another model than {model.place}"
    return InputError(f"{folder}: {told}; remove it, or call the model by another name")


def _fingerprint(model: NamedModel) -> str | None:
    """Return the model's fingerprint; None if it is not on this machine, or is given by its hub id."""
    if model.place == BM25:
        measured = Bm25Config().to_json() | {"average_length": None}  # which is the collection's own
        return sha256(json.dumps(measured, sort_keys=True).encode()).hexdigest()
    return fingerprint(Path(model.place)) if Path(model.place).is_dir() else None


def _read_about(path: Path) -> Facts | None:
    if not path.exists():
        return None
    try:
        return Facts(**json.loads(path.read_text(encoding="utf-8"))["model"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: damaged ({error}); remove {path.parent} and encode again") from None


# --- encoding


def _load(
    model: NamedModel, collection: Collection, device: str | None, batch: int | None
) -> WholeBm25 | TransformerEncoder:
    if model.place == BM25:
        return WholeBm25(collection.doc_texts())
    from denslice.encoders.torch.transformer_encoder import BATCH_TEXTS, TransformerEncoder

    return TransformerEncoder.load(model.place, device, BATCH_TEXTS if batch is None else batch)


def _facts(model: NamedModel, encoder: WholeBm25 | TransformerEncoder) -> Facts:
    if isinstance(encoder, WholeBm25):
        return Facts(_fingerprint(model) or "", BM25, "none", encoder.vocab, 0, None, 1.0)
    from denslice.encoders.torch.hub import local_folder

    config = encoder.model.config
    digest = fingerprint(local_folder(model.place))
    skip, dimensions = tokens_to_skip(encoder.vocab), encoder.model.dimensions or None
    return Facts(digest, config.lexical, config.dense, encoder.vocab, skip, dimensions, config.lam)


def _name_tokens(folder: Path, tokens: list[str]) -> None:
    """Write the token of each id, before any vector, so that an interrupted run leaves no vectors without names."""
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / TOKENS, json.dumps(tokens, ensure_ascii=False).encode())


def _encode_missing(texts: _Texts, facts: Facts, encode: Encode, progress: Progress | None) -> None:
    if not texts.missing():
        return
    texts.folder.mkdir(parents=True, exist_ok=True)
    about = {"model": asdict(facts), "texts": texts.count, "made": provenance(PACKAGES)}
    replace_file(texts.folder / ABOUT, (json.dumps(about, indent=2) + "\n").encode())
    stream, at = texts.texts(), 0
    for start, end in _chunks(encoded_rows.gaps(texts.folder, texts.count)):
        batch = list(islice(stream, start - at, end - at))
        at = end
        encoded_rows.write_rows(texts.folder, start, encode(batch), texts.precision)
        if progress:
            progress(end - start)


def _chunks(gaps: list[encoded_rows.Rows]) -> Iterator[encoded_rows.Rows]:
    for start, end in gaps:
        for first in range(start, end, AT_ONCE):
            yield first, min(first + AT_ONCE, end)
