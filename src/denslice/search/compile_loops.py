"""A program that compiles the loops that searches with default options need. `denslice.loops` starts it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from filelock import FileLock

from denslice.compiling import cache_folder
from denslice.loops import READY
from denslice.records import Doc
from denslice.search import close_words
from denslice.search.cpu import two_stage
from denslice.search.cpu.addresses import Parts
from denslice.store.folder import Folder
from denslice.store.manifest import BLOCK_ROWS
from denslice.store.segment import SEGMENTS, Segment
from denslice.store.segment_writer import SegmentWriter, StoredBatch
from denslice.store.vocabulary import Piece, word_arrays
from denslice.vectors import csr, no_weights

LOCK_FILE = "compiling.lock"  # held by the one process that compiles; each of several commands starts this program


def main() -> None:
    """Compile the loops, unless another process does, and tell on disk that they are there."""
    folder = cache_folder()
    if folder is None:
        return
    with FileLock(folder / LOCK_FILE):
        if not (folder / READY).exists():
            compile_loops()
            (folder / READY).touch()


def compile_loops() -> None:
    """Call each loop once, on a segment of one document and on a vocabulary of two words."""
    with TemporaryDirectory() as place:
        two_stage.load_loops(Parts([a_segment(Path(place))]))
        words = word_arrays(["work", "world"])
        close_words.load_loops(Piece(0, words["words"], words["starts"], words["sorted"], Path(place)))


def a_segment(place: Path) -> Segment:
    """Write a segment of one document with one word and a vector, and return it."""
    word = csr((np.ones(1, np.float32), np.zeros(1, np.int64), np.array([0, 1])), (1, 1))
    writer = SegmentWriter(place / SEGMENTS / "one", BLOCK_ROWS)
    try:
        writer.add(StoredBatch([Doc("1")], word, no_weights(1, 1), np.ones(1, np.int64), np.ones((1, 8), np.float32)))
        return Segment(Folder(place), writer.finish(), BLOCK_ROWS)
    finally:
        writer.close()
