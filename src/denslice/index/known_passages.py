"""Known passages: what an index has stored of the passages of a document, so that a change of it encodes only new ones.

A passage is known if the document had a passage before that the encoder would read as the same text. What is stored of
it is all that an encoder returns, rounded as new vectors are when they are stored, so reusing it changes no bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from denslice.analysis.fielded_text import FieldedText
from denslice.encoders import Encoder
from denslice.records import Doc, Place
from denslice.store.manifest import FULL
from denslice.store.segment import Segment
from denslice.store.segment_writer import StoredBatch
from denslice.store.snapshot import Snapshot
from denslice.vectors import Encoded, Ints, Passages, stacked

if TYPE_CHECKING:
    import scipy.sparse as sp

Input = tuple[str, FieldedText, int, str]  # the id of a stored document, and a passage as the encoder reads it


class ReusedPassages(NamedTuple):
    """The positions of the passages of a batch that are known, in any order, and their vectors without lengths."""

    at: Ints
    encoded: Encoded


class KnownPassages:
    """The passages of a commit. Those of a new document are looked up in the stored one that `before` names for its id.

    Without an entry in `before`, that is the document with the same id. `reused` counts the passages that were found.
    """

    def __init__(self, snapshot: Snapshot, before: Mapping[str, str]) -> None:
        self.snapshot = snapshot
        self.before = before
        self.reused = 0

    def find(self, ids: Sequence[str], texts: Sequence[Sequence[FieldedText]]) -> ReusedPassages | None:
        """Return those passages that are known, given the texts of each document's; None if there are none."""
        sources = [self.before.get(id, id) for id in ids]
        wanted = [_input(source, text) for source, some in zip(sources, texts, strict=True) for text in some]
        at, parts = [np.zeros(0, np.int64)], []
        for segment in self.snapshot.segments:
            if segment.entry.level == FULL and (rows := segment.live_rows(list(dict.fromkeys(sources)))):
                found, encoded = _found(wanted, segment, np.array(sorted(rows.values())))
                at.append(found)
                parts.append(encoded)
        positions = np.concatenate(at)
        if not len(positions):
            return None
        self.reused += len(positions)
        return ReusedPassages(positions, Encoded.joined(parts))


def known_passages(snapshot: Snapshot, before: Mapping[str, str], encoder: Encoder) -> KnownPassages | None:
    """Return the known passages of a commit, or None if all passages are to be encoded.

    Documents with slices have lost some of their weights. Without a model, encoding a passage takes no longer than
    looking it up.
    """
    is_whole = snapshot.manifest.slicing.slices is None
    return KnownPassages(snapshot, before) if is_whole and encoder.has_model else None


def passage_texts(doc: Doc, places: Sequence[Place]) -> list[FieldedText]:
    """Return the texts of passages as an encoder reads them. A document of one passage is read whole."""
    if len(places) <= 1:
        return [FieldedText.of(doc.title, doc.text)]
    return [FieldedText.of(doc.title, doc.text[at.start : at.end], at.heading) for at in places]


def _input(id: str, text: FieldedText) -> Input:
    return id, text, text.title_end, text.heading


def _found(wanted: Sequence[Input], segment: Segment, rows: Ints) -> tuple[Ints, Encoded]:
    """Return the positions of the passages that these rows have, and what is stored of them."""
    (batch,) = segment.batches(rows, len(rows))
    passages = batch.passages or Passages.single(len(rows))
    number_of = _numbers(batch, passages)
    at = [position for position, one in enumerate(wanted) if one in number_of]
    numbers = np.array([number_of[wanted[position]] for position in at], np.int64)
    dense = None if batch.dense is None else batch.dense[numbers].astype(np.float32)
    return np.array(at, np.int64), Encoded(_weights(batch.kept, passages)[numbers], dense)


def _numbers(batch: StoredBatch, passages: Passages) -> dict[Input, int]:
    """Return the number of each passage whose weights are stored."""
    texts = [
        _input(doc.id, text)
        for doc, places in zip(batch.docs, passages.places, strict=True)
        for text in passage_texts(doc, places)
    ]
    is_stored = _is_alone(passages) | (passages.tokens.sum(axis=1) > 0)
    return {text: number for number, text in enumerate(texts) if is_stored[number]}


def _weights(kept: sp.csr_array, passages: Passages) -> sp.csr_array:
    """Return the weights of passages: those of its document if a passage is alone in it."""
    count = int(passages.starts[-1])
    row_of = np.repeat(np.arange(kept.shape[0]), np.diff(passages.starts))
    chosen = np.where(_is_alone(passages), count + row_of, np.arange(count))
    return stacked([passages.tokens, kept])[chosen]


def _is_alone(passages: Passages) -> npt.NDArray[np.bool_]:
    counts = np.diff(passages.starts)
    return np.repeat(counts == 1, counts)
