"""Spools: the encoded documents of a part on disk, as arrays grouped by shard, until the shards are written.

Token ids count the words of the part in the order of their first occurrence. If the vocabulary is fixed, ids are
columns and the spool has no words.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import numpy as np
import scipy.sparse as sp

from denslice.cluster.cluster_folder import owner
from denslice.index.doc_batches import DocBatch
from denslice.records import Doc, Place
from denslice.store.files import load_array, save_arrays, sync_folder
from denslice.store.vocabulary import Piece, word_arrays
from denslice.vectors import Array, Encoded, Ints, Passages


def write_spool(folder: Path, batches: Sequence[DocBatch], words: Sequence[str], shards: int) -> None:
    """Write a part to a hidden folder and rename it. If the folder exists already, it stays as it is."""
    hidden = folder.with_name(f".{folder.name}.{uuid4().hex}")
    hidden.mkdir(parents=True)
    try:
        save_arrays(hidden, _arrays(batches, shards))
        save_arrays(hidden, word_arrays(words))
        sync_folder(hidden)
        hidden.rename(folder)
    except OSError:
        if not folder.exists():
            raise
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
    sync_folder(folder.parent)


class Spool:
    """An encoded part."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def docs(self) -> int:
        """The number of documents."""
        return len(self._load("order"))

    @property
    def dimensions(self) -> int | None:
        """The number of dimensions of the dense vectors, or None if there are none."""
        return int(self._dense.shape[1]) if self._dense is not None else None

    def words(self) -> list[str]:
        """Return the words in the order of their ids."""
        words, starts, order = (self._load(name) for name in ("words", "starts", "sorted"))
        return Piece(0, words, starts, order, self.folder).words()

    def weights(self, ids: Ints | None) -> sp.csr_array:
        """Return the weights of all documents in reading order. `ids` maps token ids to those of the collection."""
        return self._of(np.argsort(self._load("order"), kind="stable"), ids)

    def of(self, shard: int, ids: Ints | None) -> DocBatch:
        """Return the documents that a shard owns, in reading order."""
        start, end = self._load("shard_starts")[shard : shard + 2].tolist()
        rows = np.arange(start, end)
        starts = self._load("doc_starts")[start : end + 1].tolist()
        text = self._load("doc_bytes").data
        docs = [Doc(*json.loads(bytes(text[a:b]))) for a, b in pairwise(starts)]
        passages = self._passages(rows, ids)
        vectors = rows if passages is None else np.arange(*self._load("passage_starts")[[start, end]])
        dense = None if self._dense is None else self._dense[vectors].astype(np.float32)
        return docs, Encoded(self._of(rows, ids), dense, self._load("lengths")[rows], passages)

    def _passages(self, rows: Ints, ids: Ints | None) -> Passages | None:
        """Return the passages of these rows, or None if each row of the part is one passage."""
        if not (self.folder / "passage_starts.npy").exists():
            return None
        starts, columns, pointers = (self._load(name) for name in ("passage_starts", "passage_keys", "token_starts"))
        tokens = sp.csr_array((self._passage_weights(len(columns)), columns, pointers))
        text, place_starts = self._load("place_bytes").data, self._load("place_starts").tolist()
        places = [[Place(*one) for one in json.loads(bytes(text[a:b]))] for a, b in pairwise(place_starts)]
        passages = Passages(starts, tokens, places).of(rows)
        return passages if ids is None else passages.renamed(ids)

    def _passage_weights(self, tokens: int) -> Array:
        """Return the weights of so many tokens in their passages, of 0 in a spool of an earlier version."""
        is_known = (self.folder / "passage_weights.npy").exists()
        return self._load("passage_weights").astype(np.float32) if is_known else np.zeros(tokens, np.float32)

    def _of(self, rows: Ints, ids: Ints | None) -> sp.csr_array:
        starts, columns, weights = (self._load(name) for name in ("row_starts", "row_keys", "row_weights"))
        width = int(self._load("width")[0])
        local = sp.csr_array((weights, columns, starts), (len(starts) - 1, width))[rows]
        if ids is None:
            return local
        wide = int(ids.max(initial=-1)) + 1
        renamed = sp.csr_array((local.data, ids[local.indices], local.indptr), (len(rows), wide))
        renamed.sort_indices()
        return renamed

    @cached_property
    def _dense(self) -> Array | None:
        path = self.folder / "dense.npy"
        return load_array(path) if path.exists() else None

    def _load(self, name: str) -> Array:
        return load_array(self.folder / f"{name}.npy")


def _arrays(batches: Sequence[DocBatch], shards: int) -> dict[str, Array]:
    docs = [doc for some, _ in batches for doc in some]
    owners = np.array([owner(doc.id, shards) for doc in docs], dtype=np.int64)
    order = np.argsort(owners, kind="stable")
    empty = Encoded(sp.csr_array((0, 1), dtype=np.float32))
    encoded = Encoded.joined([one for _, one in batches] or [empty]).rows(order)
    weights = encoded.lexical
    fields = ([doc.id, doc.text, doc.title, json.loads(doc.meta_json())] for doc in (docs[at] for at in order.tolist()))
    lines = [json.dumps(one, ensure_ascii=True).encode() for one in fields]
    arrays: dict[str, Array] = {
        "order": order,
        "shard_starts": np.searchsorted(owners[order], np.arange(shards + 1)),
        "row_starts": weights.indptr.astype(np.int64),
        "row_keys": weights.indices.astype(np.int32),
        "row_weights": weights.data,
        "width": np.array([weights.shape[1]]),
        "lengths": np.zeros(len(docs), np.int64) if encoded.lengths is None else encoded.lengths,
        "doc_bytes": np.frombuffer(b"".join(lines), dtype=np.uint8),
        "doc_starts": np.cumsum([0, *map(len, lines)], dtype=np.int64),
    }
    if encoded.passages is not None:
        arrays |= _passage_arrays(encoded.passages)
    if encoded.dense is not None:
        arrays["dense"] = encoded.dense.astype(np.float16)  # as segments store them
    return arrays


def _passage_arrays(passages: Passages) -> dict[str, Array]:
    lines = [json.dumps(some).encode() for some in passages.places]
    return {
        "passage_starts": passages.starts,
        "passage_keys": passages.tokens.indices.astype(np.int32),
        "passage_weights": passages.tokens.data.astype(np.float16),
        "token_starts": passages.tokens.indptr.astype(np.int64),
        "place_bytes": np.frombuffer(b"".join(lines), dtype=np.uint8),
        "place_starts": np.cumsum([0, *map(len, lines)], dtype=np.int64),
    }
