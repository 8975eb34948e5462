"""Ids and texts of a synthetic collection on the host, as an index keeps them: ids in arrays, texts in SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cached_property
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from denslice.cores import cores
from denslice.records import Doc
from denslice.search.cpu.addresses import Parts
from denslice.search.cpu.exact_scores import rank
from denslice.search.gpu.gpu_share import GpuAnswer
from denslice.search.query import Found
from denslice.store.docs_sqlite import DOCS_FILE, Documents, DocumentsWriter
from denslice.store.files import StoredFile
from denslice.store.folder import Folder
from denslice.store.segment import ForwardIndex, Postings, Segment

CHARACTERS = 330  # of a text
AT_ONCE = 10_000  # documents that are written at a time


class PartName(NamedTuple):
    """What `Parts` knows a part by."""

    name: str


class HostPart:
    """The documents of one part of the collection, without weights: those are on the GPU."""

    highest_key = 0

    def __init__(self, number: int, first: int, rows: int, folder: Path) -> None:
        self.entry, self.first, self.rows, self._folder = PartName(f"part-{number}"), first, rows, folder
        none, starts = np.zeros(0, np.uint16), np.zeros(1, np.uint32)
        self.postings = Postings(1, starts, none.astype(np.uint32), starts, none, none, none.astype(np.uint8))
        self.kept = ForwardIndex(folder, np.zeros(rows + 1, np.uint32), none, none)

    @cached_property
    def id_arrays(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """The offset of each row's id (rows + 1,) uint32, and the UTF-8 bytes of all ids, as in a segment."""
        names = [id_of(self.first + row) for row in range(self.rows)]
        letters = np.frombuffer("".join(names).encode(), dtype=np.uint8)
        return np.cumsum([0, *map(len, names)]).astype(np.uint32), letters

    @cached_property
    def documents(self) -> Documents:
        """The texts, which `write_part` has written."""
        path = self._folder / DOCS_FILE
        return Documents(Folder(self._folder), DOCS_FILE, StoredFile(path.stat().st_size, sha256().hexdigest()))


class HostDocuments:
    """The documents of a collection on the host, which turn the GPU's answers into ids and texts as a reader does."""

    def __init__(self, sizes: Sequence[int], folder: Path) -> None:
        """Open the documents of parts of these sizes, which `write_parts` has written to the folder."""
        firsts = np.cumsum([0, *sizes]).tolist()
        parts = [HostPart(n, firsts[n], rows, folder / str(n)) for n, rows in enumerate(sizes)]
        self.parts = Parts(cast(Sequence[Segment], parts))  # they have everything that ids and texts are read from

    def ids(self, answer: GpuAnswer, k: int) -> Found:
        """Return the k best documents with their ids, equal scores by id, as a searcher does."""
        return rank(self.parts, answer.positions, answer.lexical, answer.dense, k)

    def texts(self, found: Found) -> list[Doc]:
        """Return the documents in the order of the ranking, fetched segment by segment, as a reader does."""
        docs: dict[tuple[int, int], Doc] = {}
        for at in np.unique(found.segments).tolist():
            rows = np.unique(found.rows[found.segments == at]).tolist()
            docs |= {(at, row): doc for row, doc in self.parts[at].documents.fetch(rows).items()}
        return [docs[place] for place in zip(found.segments.tolist(), found.rows.tolist(), strict=True)]


def write_parts(sizes: Sequence[int], folder: Path) -> None:
    """Write the documents of parts of these sizes to folders 0, 1, …, a part for each core at a time."""
    firsts = np.cumsum([0, *sizes]).tolist()
    folders = [folder / str(n) for n in range(len(sizes))]
    with ProcessPoolExecutor(cores(), get_context("spawn")) as pool:  # CUDA does not survive a fork
        list(pool.map(write_part, folders, firsts[:-1], sizes))


def write_part(folder: Path, first: int, rows: int) -> None:
    """Write the documents of one part."""
    folder.mkdir(parents=True)
    writer = DocumentsWriter(folder)
    for start in range(first, first + rows, AT_ONCE):
        some = range(start, min(start + AT_ONCE, first + rows))
        writer.add([Doc(id_of(number), text_of(number)) for number in some])
    writer.finish()


def id_of(number: int) -> str:
    """Return the id of a document."""
    return f"doc-{number:08d}"


def text_of(number: int) -> str:
    """Return the text of a document, which begins with its id."""
    return f"{id_of(number)} ".ljust(CHARACTERS, "abcdefg "[number % 8])
