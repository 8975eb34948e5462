"""Small inputs go through numpy: nothing is compiled for them, and the compiled loops give the same bit for bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from denslice import Index, array_ops
from denslice.options import SearchOptions
from denslice.search.cpu import two_stage
from denslice.search.cpu.addresses import Parts
from denslice.search.query import Found, QueryVectors
from denslice.store.snapshot import Snapshot

VOCAB, DIMENSIONS = 12, 3
FIRST_USE = """
import sys
from denslice.__main__ import main
for arguments in (["index", "docs.jsonl", "--to", "b.idx", "--encoder", "bm25"], ["search", "b.idx", "fox"]):
    sys.argv = ["denslice", *arguments]
    try:
        main()
    except SystemExit as end:
        assert not end.code
print("numba" in sys.modules)
"""
OUTGROWN = """
import sys
import numpy as np
from denslice import Index
from denslice.search.cpu.two_stage import SMALL_INDEX
index = Index.create("i", "vectors", vocab=12, slices=12, slicing="stride")
index.add_vectors(["small"], np.ones((1, 12), np.float32))
if {searched}:
    index.search_vectors(np.ones((1, 12), np.float32))
rows = SMALL_INDEX // 12 + 1
index.add_vectors([str(n) for n in range(rows)], np.ones((rows, 12), np.float32))
words = sys.modules.get("denslice.search.cpu.lexical")
print(words is not None and len(words.best_by_words.signatures) == 1)
"""
WEIGHTS = st.floats(0, 100, width=16)
NUMBERS = st.floats(-4, 4, width=16)


def test_a_few_documents_are_indexed_and_searched_without_numba(tmp_path: Path) -> None:
    docs = [{"id": f"d{n}", "text": f"fox number {n}"} for n in range(5)]
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    printed = run_in(tmp_path, FIRST_USE)
    assert any("\td3\t" in line for line in printed)
    assert printed[-1] == "False"


@pytest.mark.parametrize("searched", [True, False])
def test_a_searched_index_that_outgrows_numpy_has_its_loops_ready_before_the_commit_is_shown(
    tmp_path: Path, searched: bool
) -> None:
    assert run_in(tmp_path, OUTGROWN.format(searched=searched)) == [str(searched)]


def run_in(folder: Path, code: str) -> list[str]:
    """The lines that a new process prints."""
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | paths, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@settings(max_examples=60, deadline=None)
@given(
    docs=hnp.arrays(np.float32, st.tuples(st.integers(1, 30), st.just(VOCAB)), elements=st.just(0) | WEIGHTS),
    data=st.data(),
    mode=st.sampled_from(["lexical", "dense", "hybrid"]),
    k=st.sampled_from([1, 3, 40]),
)
def test_numpy_finds_what_compiled_loops_find_with_the_same_bits(
    docs: np.ndarray, data: st.DataObject, mode: str, k: int
) -> None:
    dense = data.draw(hnp.arrays(np.float32, (len(docs), DIMENSIONS), elements=NUMBERS))
    allowed = data.draw(hnp.arrays(np.uint8, len(docs), elements=st.integers(0, 1)))
    weights = data.draw(hnp.arrays(np.float32, VOCAB, elements=st.just(0) | st.floats(2**-10, 100, width=32)))
    keys = np.flatnonzero(weights) if mode != "dense" else np.zeros(0, np.int64)
    vector = data.draw(hnp.arrays(np.float32, DIMENSIONS, elements=NUMBERS))
    query = QueryVectors(keys, weights[keys], None if mode == "lexical" else vector)
    with tempfile.TemporaryDirectory() as folder:
        parts = in_two_segments(Path(folder), docs, dense)
        ends = np.cumsum([segment.rows for segment in parts])[:-1]
        for masks in ([np.zeros(0, np.uint8)] * len(parts), np.split(allowed, ends)):
            assert_same(
                two_stage.search_plainly(parts, query, SearchOptions(k), masks), compiled(parts, query, k, masks)
            )


def in_two_segments(folder: Path, docs: np.ndarray, dense: np.ndarray) -> Parts:
    index = Index.create(folder / "i", "vectors", vocab=VOCAB, slices=VOCAB, slicing="stride")
    for part in np.array_split(np.arange(len(docs)), 2):
        if len(part):
            ids = [f"{'é' * (n % 2)}{n % 5}-{n}" for n in part.tolist()]
            index.add_vectors(ids, docs[part], dense=dense[part])
    return Parts(Snapshot(index.path).segments)


def compiled(parts: Parts, query: QueryVectors, k: int, masks: Sequence[np.ndarray]) -> Found:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(two_stage, "SMALL_INDEX", -1)
        return two_stage.search(parts, query, SearchOptions(k), masks)


def assert_same(one: Found, other: Found) -> None:
    assert one.ids == other.ids
    assert one.segments.tolist() == other.segments.tolist()
    assert one.rows.tolist() == other.rows.tolist()
    for name in ("scores", "lexical", "dense"):
        assert getattr(one, name).dtype == getattr(other, name).dtype == np.float32
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_only_exact_searches_of_few_weights_are_done_in_numpy(tmp_path: Path) -> None:
    parts = in_two_segments(tmp_path, np.ones((6, VOCAB), np.float32), np.ones((6, DIMENSIONS), np.float32))
    assert parts.weights == 6 * VOCAB
    assert two_stage.is_plain(parts, SearchOptions(3))
    for other in ({"theta": 0.5}, {"pruning": 0.1}, {"rerank": False}, {"candidates_from": "lexical"}):
        assert not two_stage.is_plain(parts, SearchOptions(3, **other))
    many = Index.create(tmp_path / "many", "vectors", vocab=VOCAB, slices=VOCAB, slicing="stride")
    rows = two_stage.SMALL_INDEX // VOCAB + 1
    many.add_vectors([str(n) for n in range(rows)], np.ones((rows, VOCAB), np.float32))
    assert not two_stage.is_plain(Parts(Snapshot(many.path).segments), SearchOptions(3))


@settings(max_examples=60, deadline=None)
@given(
    rows=hnp.arrays(np.float32, st.tuples(st.integers(0, 8), st.just(VOCAB)), elements=st.integers(-1, 3)),
    slice_of=hnp.arrays(np.int64, VOCAB, elements=st.integers(-1, 4)),
)
def test_sorting_keeps_of_each_slice_what_the_compiled_loop_keeps(rows: np.ndarray, slice_of: np.ndarray) -> None:
    from denslice import array_loops

    given = sp.csr_array(rows)
    arrays = (given.indptr, given.indices, given.data, slice_of, 5)
    assert array_ops.largest_by_sorting(*arrays).tolist() == array_loops.largest_per_slice(*arrays).tolist()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 255)), max_size=6), max_size=6))
def test_sorting_orders_postings_as_the_compiled_loop_does(lists: list[list[tuple[int, int]]]) -> None:
    from denslice import array_loops

    starts = np.cumsum([0, *map(len, lists)])
    postings = [posting for one in lists for posting in one]
    ordered = []
    for order in (array_ops.lists_by_sorting, array_loops.sort_by_value):
        rows = np.array([row for row, _ in postings], np.uint16)
        values = np.array([value for _, value in postings], np.uint8)
        order(starts, rows, values)
        ordered.append(list(zip(rows.tolist(), values.tolist(), strict=True)))
    by_hand = [sorted(one, key=lambda posting: -posting[1]) for one in lists]
    assert ordered == [[posting for one in by_hand for posting in one]] * 2


def test_inputs_past_the_small_ones_go_through_the_compiled_loops() -> None:
    size = array_ops.FEW_POSTINGS + 2
    rows, values = np.arange(size, dtype=np.uint32).astype(np.uint16), (np.arange(size) % 251).astype(np.uint8)
    same_rows, same_values = rows.copy(), values.copy()
    array_ops.sort_by_value(np.array([0, size]), rows, values)
    array_ops.lists_by_sorting(np.array([0, size]), same_rows, same_values)
    assert rows.tolist() == same_rows.tolist()
    assert values.tolist() == same_values.tolist()
    data = np.random.default_rng(0).random((array_ops.SMALL_INPUT // 12, 12)).astype(np.float32)
    given = sp.csr_array(np.concatenate([data, np.ones((2, 12), np.float32)]))
    arrays = (given.indptr, given.indices, given.data, np.arange(12) // 4, 3)
    assert len(given.data) > array_ops.SMALL_INPUT
    assert array_ops.largest_per_slice(*arrays).tolist() == array_ops.largest_by_sorting(*arrays).tolist()
