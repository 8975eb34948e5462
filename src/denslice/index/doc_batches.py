"""Batches of documents with their vectors: encoded here, or given as ready vectors.

A batch holds few enough documents that memory does not grow with the input.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from denslice.corpus.passages import cut
from denslice.encoders import DocEncoder
from denslice.errors import InputError
from denslice.grouping import documents_of
from denslice.index.known_passages import KnownPassages, ReusedPassages, passage_texts
from denslice.records import Doc, Place, checked_docs
from denslice.vectors import Encoded, Floats

if TYPE_CHECKING:
    import scipy.sparse as sp

BATCH = 2_048  # documents encoded, stored or deleted at a time; an encoder may ask for fewer
CUT_PASSAGES = 4  # times the documents of a batch: with so many passages it is full
DocBatch = tuple[list[Doc], Encoded]


class CutDoc(NamedTuple):
    """A document and the places of its passages, at least one. A document of one passage is encoded whole."""

    doc: Doc
    places: list[Place]


def cut_docs(docs: Iterable[Doc], do_cut: bool) -> Iterator[CutDoc]:
    """Yield documents cut into passages, or each as one passage."""
    for doc in docs:
        yield CutDoc(doc, cut(doc.text) if do_cut else [Place(0, len(doc.text))])


def encode_batches(
    docs: Iterable[CutDoc], encoder: DocEncoder, known: KnownPassages | None = None
) -> Iterator[DocBatch]:
    """Yield the documents with their vectors, in batches of about `encoder.batch_docs`.

    Passages that are known are not encoded.
    """
    size = min(encoder.batch_docs, BATCH)
    batch: list[CutDoc] = []
    count = 0
    for one in docs:
        batch.append(one)
        count += len(one.places)
        if len(batch) == size or count >= CUT_PASSAGES * size:
            yield [doc for doc, _ in batch], _encoded(batch, encoder, known)
            batch, count = [], 0
    if batch:
        yield [doc for doc, _ in batch], _encoded(batch, encoder, known)


def _encoded(docs: Sequence[CutDoc], encoder: DocEncoder, known: KnownPassages | None) -> Encoded:
    """Return the vectors of documents, made of those of their passages."""
    if encoder.reads != "text":
        return encoder.encode_docs([_ready_vector(doc) for doc, _ in docs])
    texts = [passage_texts(doc, places) for doc, places in docs]
    reused = known.find([doc.id for doc, _ in docs], texts) if known else None
    passages = _passages(list(chain.from_iterable(texts)), encoder, reused)
    if all(len(places) == 1 for _, places in docs):
        return passages
    return documents_of(passages, [places for _, places in docs])


def _passages(texts: Sequence[str], encoder: DocEncoder, reused: ReusedPassages | None) -> Encoded:
    """Return the vectors of passages, encoding those that are not reused."""
    if reused is None:
        return _encode(texts, encoder)
    new = np.setdiff1d(np.arange(len(texts)), reused.at)
    lengths = encoder.text_lengths([texts[at] for at in reused.at.tolist()])
    parts = [replace(reused.encoded, lengths=lengths)]
    if len(new):
        parts.append(_encode([texts[at] for at in new.tolist()], encoder))
    return Encoded.joined(parts).rows(np.argsort(np.concatenate([reused.at, new])))


def _encode(texts: Sequence[str], encoder: DocEncoder) -> Encoded:
    """Return the vectors of texts, encoded in batches."""
    size = encoder.batch_docs
    parts = [encoder.encode_docs(texts[at : at + size]) for at in range(0, len(texts), size)]
    return parts[0] if len(parts) == 1 else Encoded.joined(parts)


def _ready_vector(doc: Doc) -> object:
    if doc.vector is None:
        raise InputError(f"document {doc.id!r} has no vector, and this index holds ready vectors")
    return doc.vector


def ready_batches(
    ids: Sequence[str], weights: sp.csr_array, texts: Sequence[str] | None, dense: Floats | None
) -> Iterator[DocBatch]:
    """Yield ready vectors as batches of documents; raise InputError unless there are as many of each."""
    if isinstance(ids, str):
        raise InputError(f"ids come in a list, not as one string: [{ids!r}]")
    if len(ids) != weights.shape[0] or (texts is not None and len(texts) != len(ids)):
        told = "" if texts is None else f" and {len(texts):,} texts"
        raise InputError(f"{len(ids):,} ids for {weights.shape[0]:,} vectors{told}")
    if dense is not None and len(dense) != len(ids):
        raise InputError(f"{len(ids):,} ids for {len(dense):,} dense vectors")
    encoded = Encoded(weights, dense)
    for start in range(0, len(ids), BATCH):
        batch = range(start, min(start + BATCH, len(ids)))
        docs = list(checked_docs((Doc(ids[i], "" if texts is None else texts[i]) for i in batch), start))
        yield docs, encoded.rows(slice(start, start + BATCH))
