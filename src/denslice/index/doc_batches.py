"""Batches of documents with their vectors: encoded here, or given as ready vectors.

A batch holds few enough documents that memory does not grow with the input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from denslice.corpus.passages import cut
from denslice.encoders import Encoder
from denslice.errors import InputError
from denslice.grouping import documents_of
from denslice.records import Doc, Place, checked_docs
from denslice.vectors import Encoded, Floats

if TYPE_CHECKING:
    import scipy.sparse as sp

BATCH = 2_048  # documents encoded, stored or deleted at a time; an encoder may ask for fewer
CUT_PASSAGES = 4  # times the documents of a batch: with so many passages it is full
DocBatch = tuple[list[Doc], Encoded]


def encode_batches(docs: Iterator[Doc], encoder: Encoder, cut_docs: bool) -> Iterator[DocBatch]:
    """Yield the documents with their vectors, in batches of about `encoder.batch_docs`, cut into passages or not."""
    size = min(encoder.batch_docs, BATCH)
    if not cut_docs or encoder.reads != "text":
        while batch := list(islice(docs, size)):
            yield batch, encoder.encode_docs([_read(doc, encoder.reads) for doc in batch])
        return
    batch, places, count = [], [], 0
    for doc in docs:
        batch.append(doc)
        places.append(cut(doc.text))
        count += len(places[-1])
        if len(batch) == size or count >= CUT_PASSAGES * size:
            yield batch, _encoded(batch, places, encoder)
            batch, places, count = [], [], 0
    if batch:
        yield batch, _encoded(batch, places, encoder)


def _encoded(docs: Sequence[Doc], places: Sequence[Sequence[Place]], encoder: Encoder) -> Encoded:
    """Return the vectors of documents, made of those of their passages."""
    if all(len(some) == 1 for some in places):
        return encoder.encode_docs([doc.contents for doc in docs])
    texts = [
        replace(doc, text=doc.text[at.start : at.end]).contents
        for doc, some in zip(docs, places, strict=True)
        for at in some
    ]
    size = encoder.batch_docs
    passages = Encoded.joined([encoder.encode_docs(texts[at : at + size]) for at in range(0, len(texts), size)])
    return documents_of(passages, places)


def _read(doc: Doc, reads: str) -> object:
    """Return the part of a document that the encoder reads."""
    if reads == "text":
        return doc.contents
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
