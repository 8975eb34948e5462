"""Batches of documents with their vectors: encoded here, or given as ready vectors.

A batch holds few enough documents that memory does not grow with the input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from denslice.encoders import Encoder
from denslice.errors import InputError
from denslice.records import Doc, checked_docs
from denslice.vectors import Encoded, Floats

if TYPE_CHECKING:
    import scipy.sparse as sp

BATCH = 2_048  # documents encoded, stored or deleted at a time; an encoder may ask for fewer
DocBatch = tuple[list[Doc], Encoded]


def encode_batches(docs: Iterator[Doc], encoder: Encoder) -> Iterator[DocBatch]:
    """Yield the documents with their vectors, at most `encoder.batch_docs` at a time."""
    while batch := list(islice(docs, min(encoder.batch_docs, BATCH))):
        yield batch, encoder.encode_docs([_read(doc, encoder.reads) for doc in batch])


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
