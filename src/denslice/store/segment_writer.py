"""The writer of a segment: it takes documents with their weights and writes their containers and SQLite file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from denslice.records import Doc
from denslice.store.container import write_container
from denslice.store.dense_vectors import dense_arrays
from denslice.store.docs_sqlite import DOCS_FILE, DocumentsWriter
from denslice.store.files import seal, sync_folder
from denslice.store.manifest import SegmentEntry
from denslice.vectors import Array, Floats, Ints, Passages, csr, joined_passages, no_weights, rounded, stacked

if TYPE_CHECKING:
    import scipy.sparse as sp

LEXICAL_FILE, DENSE_FILE = "words.arrays", "dense.arrays"
POSTING_STEPS = 255  # a posting's weight in steps of its list's maximum, uint8


@dataclass(frozen=True)
class StoredBatch:
    """Documents as a segment stores them, with the weights that the slicing kept and those it dropped."""

    docs: Sequence[Doc]
    kept: sp.csr_array
    lost: sp.csr_array
    lengths: Ints  # (docs,) in tokens, 0 if the encoder does not count them
    dense: Array | None = None  # (passages, dimensions)
    passages: Passages | None = None  # None if each document is one passage

    def unsliced(self) -> StoredBatch:
        """Return the same documents with every weight kept."""
        width = max(self.kept.shape[1], self.lost.shape[1])
        parts = [csr((w.data, w.indices, w.indptr), (w.shape[0], width)) for w in (self.kept, self.lost)]
        every = parts[0] + parts[1]
        every.sort_indices()
        return replace(self, kept=every, lost=no_weights(*every.shape))

    def rows(self, chosen: Ints) -> StoredBatch:
        """Return these documents as a batch of their own; each must be one passage."""
        docs = [self.docs[at] for at in chosen.tolist()]
        dense = None if self.dense is None else self.dense[chosen]
        return StoredBatch(docs, self.kept[chosen], self.lost[chosen], self.lengths[chosen], dense)


class SegmentWriter:
    """Collects documents and their weights, and writes them as one segment."""

    def __init__(self, folder: Path, block: int, filterable: Sequence[str] = ()) -> None:
        """Begin a segment in a new folder."""
        folder.mkdir(parents=True)
        self.folder = folder
        self.block = block
        self.documents = DocumentsWriter(folder, filterable)
        self.ids: list[str] = []
        self.kept: list[sp.csr_array] = []
        self.lost: list[sp.csr_array] = []
        self.lengths: list[Ints] = []
        self.dense: list[Array] = []
        self.passages: list[tuple[int, Passages | None]] = []
        self.weights = 0
        self.dense_rows = 0

    def add(self, batch: StoredBatch) -> None:
        """Append documents."""
        self.documents.add(batch.docs, batch.passages.places if batch.passages else ())
        self.ids += [doc.id for doc in batch.docs]
        self.kept.append(rounded(batch.kept))
        self.lost.append(rounded(batch.lost))
        self.lengths.append(batch.lengths)
        self.passages.append((len(batch.docs), batch.passages))
        self.weights += batch.kept.nnz + batch.lost.nnz
        self.dense_rows += int(batch.passages.starts[-1]) if batch.passages else len(batch.docs)
        if batch.dense is not None:
            self.dense.append(batch.dense.astype(np.float16))

    def finish(self) -> SegmentEntry:
        """Write and fsync every file, and return the segment's entry."""
        self.documents.finish()
        kept, lost = stacked(self.kept), stacked(self.lost)
        lengths = np.concatenate(self.lengths)
        arrays = _id_arrays(self.ids) | {"lengths": lengths.astype(np.uint32)}
        arrays |= _row_arrays("row", kept) | _row_arrays("lost", lost)
        arrays |= _posting_arrays(kept, self.block)
        passages, having = joined_passages(self.passages), np.ones(kept.nnz, np.int64)
        if passages is not None:
            of_passages, having = _passage_arrays(passages, kept)
            arrays |= of_passages
        arrays |= _frequency_arrays(kept, lost, having)
        files = {
            DOCS_FILE: seal(self.folder / DOCS_FILE),
            LEXICAL_FILE: write_container(self.folder / LEXICAL_FILE, arrays),
        }
        if self.dense:
            files[DENSE_FILE] = write_container(self.folder / DENSE_FILE, dense_arrays(np.concatenate(self.dense)))
        sync_folder(self.folder)
        cut = None if passages is None else self.dense_rows
        return SegmentEntry(self.folder.name, len(self.ids), self.weights, int(lengths.sum()), files, passages=cut)

    def close(self) -> None:
        """Close open files; after `finish` this does nothing."""
        self.documents.close()


def _id_arrays(ids: list[str]) -> dict[str, Array]:
    encoded = [id.encode() for id in ids]
    text = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    return {"id_bytes": text, "id_starts": _starts([len(id) for id in encoded], np.uint32)}


def _row_arrays(name: str, weights: sp.csr_array) -> dict[str, Array]:
    key_type = np.uint16 if weights.shape[1] <= 1 << 16 else np.uint32
    return {
        f"{name}_starts": weights.indptr.astype(np.uint32),
        f"{name}_keys": weights.indices.astype(key_type),
        f"{name}_weights": weights.data.astype(np.float16),
    }


def _passage_arrays(passages: Passages, kept: sp.csr_array) -> tuple[dict[str, Array], Ints]:
    """Return the passages of each row, and the tokens of each passage as positions among the kept tokens of its row.

    Beside them, return how many passages have each kept token (weights,). The weights of passages are left out if none
    are known.
    """
    tokens, width = passages.tokens, np.int64(max(passages.tokens.shape[1], kept.shape[1], 1))
    row_of = np.repeat(np.arange(kept.shape[0]), np.diff(passages.starts))  # (passages,)
    wanted = np.repeat(row_of, np.diff(tokens.indptr)) * width + tokens.indices
    stored = np.repeat(np.arange(kept.shape[0]), np.diff(kept.indptr)) * width + kept.indices
    at = np.searchsorted(stored, wanted).clip(max=max(0, len(stored) - 1))
    is_kept = stored[at] == wanted if len(stored) else np.zeros(len(wanted), np.bool_)
    before = np.concatenate([[0], np.cumsum(is_kept)])
    places = (at - kept.indptr[wanted // width])[is_kept]
    longest = int(np.diff(kept.indptr).max(initial=0))
    having = np.bincount(at[is_kept], minlength=kept.nnz)
    arrays: dict[str, Array] = {
        "passage_starts": passages.starts.astype(np.uint32),
        "passage_shares": passages.shares,
        "passage_token_starts": before[tokens.indptr].astype(np.uint32),
        "passage_tokens": places.astype(np.uint16 if longest <= 1 << 16 else np.uint32),
    }
    weights = _known_weights(tokens, is_kept)[is_kept]
    if weights.any():
        arrays["passage_weights"] = weights.astype(np.float16)
    return arrays, np.maximum(having, 1)  # a document of one passage has no list of its own


def _known_weights(tokens: sp.csr_array, is_kept: npt.NDArray[np.bool_]) -> Floats:
    """Return the weights of tokens in their passages, of 0 in a passage with a token that its document does not keep.

    Without that token the passage cannot be a part of another document.
    """
    passage_of = np.repeat(np.arange(tokens.shape[0]), np.diff(tokens.indptr))
    dropped = np.bincount(passage_of, ~is_kept, tokens.shape[0])
    weights: Floats = np.where(dropped[passage_of] > 0, np.float32(0), tokens.data)
    return weights


def _frequency_arrays(kept: sp.csr_array, lost: sp.csr_array, having: Ints) -> dict[str, Array]:
    """Return how many passages have each token, given how many of its document have each kept weight's."""
    counted = np.concatenate([having, np.ones(lost.nnz, np.int64)])
    counts = np.bincount(np.concatenate([kept.indices, lost.indices]), counted).astype(np.int64)
    keys = np.flatnonzero(counts)
    return {"frequency_keys": keys.astype(np.uint32), "frequencies": counts[keys].astype(np.uint32)}


def _posting_arrays(kept: sp.csr_array, block: int) -> dict[str, Array]:
    """Return the posting lists of all blocks, concatenated."""
    blocks = [_block_arrays(kept[start : start + block]) for start in range(0, kept.shape[0], block)]
    joined = {name: np.concatenate([one[name] for one in blocks]) for name in blocks[0]}
    sizes = joined.pop("list_sizes")
    joined["list_starts"] = _starts(sizes, np.uint32)
    joined["block_starts"] = _starts([len(one["list_sizes"]) for one in blocks], np.uint32)
    return joined


def _block_arrays(kept: sp.csr_array) -> dict[str, Array]:
    """Return the posting lists of one block: the rows of each key, and their weights in steps of the list's maximum.

    Steps are rounded up, so that a score from postings is an upper bound of the exact one. Within a list they
    descend, so that search can skip its end.
    """
    from denslice.array_ops import sort_by_value

    columns = kept.tocsc()
    sizes = np.diff(columns.indptr)
    keys = np.flatnonzero(sizes)
    starts = columns.indptr[keys]
    maxima = np.maximum.reduceat(columns.data, starts) if len(keys) else np.zeros(0, np.float32)
    steps = np.ceil(columns.data.astype(np.float64) * POSTING_STEPS / np.repeat(maxima, sizes[keys]))
    rows, values = columns.indices.astype(np.uint16), steps.astype(np.uint8)
    sort_by_value(_starts(sizes[keys], np.int64), rows, values)
    return {
        "list_keys": keys.astype(np.uint32),
        "list_sizes": sizes[keys],
        "list_maxima": maxima.astype(np.float16),
        "posting_rows": rows,
        "posting_values": values,
    }


def _starts(sizes: Sequence[int] | Array, dtype: type[np.integer[Any]]) -> Array:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(dtype)
