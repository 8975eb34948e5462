"""A cluster's plain parts, without Ray: who owns a document, how inputs are cut, how rankings merge."""

from __future__ import annotations

import gzip
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from denslice import Index, InputError, MissingShardsError, open_cluster
from denslice.cluster.cluster_folder import Layout, owner, read_layout
from denslice.cluster.input_parts import columns, cut, read_part, read_ready
from denslice.cluster.replica import Replica, compile_lock
from denslice.cluster.shard import Head, new_shard
from denslice.cluster.spool import Spool, write_spool
from denslice.corpus.documents import read_docs
from denslice.errors import IndexFormatError
from denslice.grouping import documents_of
from denslice.index.ranking_merge import merge
from denslice.records import Doc, Place
from denslice.search.query import NO_SCORES, Found
from denslice.vectors import Encoded
from three_nodes import write_texts

LOADED = """
import sys
import pickle
from denslice.cluster.replica import Find, Replica
from denslice.options import SearchOptions
from denslice.search.query import QueryVectors
import numpy as np

def loaded():
    mine = [module for name, module in sys.modules.items() if name.startswith("denslice.search")]
    found = {id(one): one for module in mine for one in vars(module).values() if hasattr(one, "signatures")}
    return sum(len(one.signatures) for one in found.values())

replica = Replica(sys.argv[1])
replica.ready()
before = loaded()
query = QueryVectors(np.array([1, 3]), np.array([0.5, 2.0], dtype=np.float32), np.ones(4, dtype=np.float32))
replica.answer(0, pickle.dumps(Find([query, query], SearchOptions(k=5))))
print(before > 0, loaded() - before)
"""


def test_the_owner_of_an_id_is_the_same_for_all_time() -> None:
    assert [owner(id, 16) for id in ("1", "d42", "Ünïcode", "a b")] == [6, 0, 8, 8]


def test_owners_are_spread_evenly() -> None:
    counts = np.bincount([owner(f"d{at}", 8) for at in range(8_000)], minlength=8)
    assert counts.min() > 850
    assert counts.max() < 1_150


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0, 2.5]), st.integers(0, 99)), max_size=60), st.integers(1, 70))
def test_shards_merge_to_the_order_of_one_index(scored: list[tuple[float, int]], k: int) -> None:
    docs = {f"d{number}": score for score, number in scored}
    shards: dict[int, list[tuple[float, str]]] = {0: [], 1: [], 2: []}
    for id, score in docs.items():
        shards[owner(id, 3)].append((-score, id))
    found = {at: _found(sorted(some)[:k]) for at, some in shards.items()}
    merged = merge(found, k)
    best = sorted((-score, id) for id, score in docs.items())[:k]
    assert merged.ids == [id for _, id in best]
    assert merged.scores.tolist() == [-score for score, _ in best]
    assert merged.segments.tolist() == [owner(id, 3) for id in merged.ids]


def test_a_merge_of_nothing_is_nothing() -> None:
    assert merge({0: _found([]), 1: _found([])}, 10).ids == []
    assert merge({}, 10, ("shards/00000",)).missing == ("shards/00000",)


@pytest.mark.parametrize("size", [1, 100, 1_000, 1 << 20])
def test_parts_of_a_file_hold_its_documents_in_order(tmp_path: Path, size: int) -> None:
    path = write_texts(tmp_path / "docs.jsonl", 50)
    parts = cut([str(path)], 2, size)
    assert len(parts) == 50 if size == 1 else len(parts) < 50
    assert [doc for part in parts for doc in read_part(part)] == list(read_docs([path]))


def test_a_folder_of_texts_is_cut_by_files_and_keeps_their_ids(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for at in range(20):
        (tmp_path / ("in" if at % 2 else ".") / f"t{at}.txt").write_text(f"text {at}")
    parts = cut([str(tmp_path)], 1, 20)
    assert len(parts) > 1
    assert [doc for part in parts for doc in read_part(part)] == list(read_docs([tmp_path]))


def test_a_gzipped_file_is_one_part(tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl.gz"
    path.write_bytes(gzip.compress(write_texts(tmp_path / "docs.jsonl", 30).read_bytes()))
    (part,) = cut([str(path)], 2, 100)
    assert list(read_part(part)) == list(read_docs([path]))


def test_a_byte_order_mark_and_blank_lines_are_where_the_file_has_them(tmp_path: Path) -> None:
    path = tmp_path / "docs.tsv"
    path.write_bytes("\ufeff1\tone\r\n\n\n\n2\ttwo\n\n".encode())
    for size in (1, 8, 100):
        docs = [doc for part in cut([str(path)], 1, size) for doc in read_part(part)]
        assert [(doc.id, doc.text) for doc in docs] == [("1", "one"), ("2", "two")]


def test_a_bad_line_is_told_by_its_number_in_the_file(tmp_path: Path) -> None:
    path = write_texts(tmp_path / "docs.jsonl", 40)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:30], "{broken", *lines[31:]]) + "\n")
    parts = cut([str(path)], 1, 300)
    assert len(parts) > 5
    with pytest.raises(InputError, match=r"docs\.jsonl:31: broken JSON"):
        [list(read_part(part)) for part in parts]


def test_ready_vectors_are_cut_by_rows(tmp_path: Path) -> None:
    weights = sp.random(30, 12, 0.5, format="csr", dtype=np.float32, rng=np.random.default_rng(0))
    path = _write_npz(tmp_path / "v.npz", weights)
    parts = cut([str(path)], 1, 300)
    assert len(parts) > 2
    assert columns([str(path)]) == 12
    read = [read_ready(part) for part in parts]
    assert [id for ids, _ in read for id in ids] == [f"v{row}" for row in range(30)]
    assert (sp.vstack([some for _, some in read]) != weights).nnz == 0


def test_ready_vectors_of_different_widths_are_refused(tmp_path: Path) -> None:
    paths = [str(_write_npz(tmp_path / f"{width}.npz", sp.eye(3, width, format="csr"))) for width in (4, 5)]
    with pytest.raises(InputError, match=r"5\.npz: vectors have 5 columns"):
        columns(paths)


def test_a_spooled_part_gives_each_shard_its_documents(tmp_path: Path) -> None:
    docs = [Doc(f"d{at}", f"text {at} ☃", meta={"at": at}) for at in range(20)]
    weights = sp.csr_array(np.eye(20, 20, dtype=np.float32))
    dense = np.arange(40, dtype=np.float32).reshape(20, 2)
    batches = [(docs[:7], Encoded(weights[:7], dense[:7])), (docs[7:], Encoded(weights[7:], dense[7:]))]
    write_spool(tmp_path / "parts" / "0", batches, [f"w{at}" for at in range(20)], 3)
    spool = Spool(tmp_path / "parts" / "0")
    ids = np.arange(20)[::-1].copy()
    assert spool.words() == [f"w{at}" for at in range(20)]
    assert (spool.docs, spool.dimensions) == (20, 2)
    assert (spool.weights(None) != weights).nnz == 0
    seen = []
    for shard in range(3):
        owned, encoded = spool.of(shard, ids)
        assert all(owner(doc.id, 3) == shard for doc in owned)
        for row, doc in enumerate(owned):
            at = doc.meta["at"]
            assert doc == docs[at]
            assert encoded.lexical[[row]].indices.tolist() == [19 - at]
            assert encoded.dense is not None
            assert encoded.dense[row].tolist() == dense[at].tolist()
        seen += [doc.id for doc in owned]
    assert sorted(seen) == sorted(doc.id for doc in docs)
    write_spool(tmp_path / "parts" / "0", [], [], 3)  # a second worker that was slower
    assert Spool(tmp_path / "parts" / "0").docs == 20


def test_a_spooled_part_keeps_the_weights_of_passages(tmp_path: Path) -> None:
    docs = [Doc(f"d{at}", "xxx") for at in range(4)]
    weights = sp.csr_array(np.arange(1, 25, dtype=np.float32).reshape(8, 3) / 7)
    encoded = documents_of(Encoded(weights), [[Place(0, 1), Place(1, 3)]] * 4)
    write_spool(tmp_path / "0", [(docs, encoded)], ["a", "b", "c"], 2)
    for shard in range(2):
        owned, found = Spool(tmp_path / "0").of(shard, np.array([5, 3, 4]))
        assert found.passages is not None
        at = [2 * int(doc.id[1:]) + number for doc in owned for number in (0, 1)]
        expected = weights.toarray()[at].astype(np.float16)
        assert found.passages.tokens.toarray()[:, [5, 3, 4]].tolist() == expected.tolist()
    (tmp_path / "0" / "passage_weights.npy").unlink()  # as an earlier version left it
    _, found = Spool(tmp_path / "0").of(owner("d0", 2), None)
    assert found.passages is not None
    assert (found.passages.tokens.nnz, found.passages.tokens.sum()) == (found.passages.tokens.shape[0] * 3, 0)


def test_a_folder_that_is_no_cluster_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such cluster"):
        read_layout(tmp_path / "nowhere")
    with pytest.raises(IndexFormatError, match=r"no cluster\.json"):
        read_layout(tmp_path)
    (tmp_path / "building").mkdir()
    with pytest.raises(IndexFormatError, match="interrupted; give the same `denslice index` command again"):
        read_layout(tmp_path)
    (tmp_path / "cluster.json").write_text("{")
    with pytest.raises(IndexFormatError, match="damaged"):
        read_layout(tmp_path)
    (tmp_path / "cluster.json").write_text('{"format": 9, "shards": 2}')
    with pytest.raises(IndexFormatError, match="cluster format 9"):
        read_layout(tmp_path)
    Layout(tmp_path, 3).write()
    assert read_layout(tmp_path).shards == 3


def test_the_error_of_missing_shards_names_them() -> None:
    assert str(MissingShardsError(["shards/00001", "shards/00004"])) == "no answer from shards/00001, shards/00004"


def test_without_ray_the_error_says_what_to_install(tmp_path: Path) -> None:
    Layout(tmp_path, 1).write()
    code = f"import sys; sys.modules['ray'] = None\nimport denslice\ndenslice.open_cluster({str(tmp_path)!r}, 'local')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "MissingExtraError: a cluster needs optional packages: pip install 'denslice[ray]'" in done.stderr


@pytest.mark.parametrize("address", ["127.0.0.1:1", "no.such.host.invalid:6379"])
def test_an_address_where_no_ray_is_is_told_at_once(tmp_path: Path, address: str) -> None:
    Layout(tmp_path, 1).write()
    began = time.monotonic()
    with pytest.raises(InputError, match=f"no Ray cluster at {address} .*; start one with `ray start --head`"):
        open_cluster(tmp_path, address)
    assert time.monotonic() - began < 30


def test_no_address_and_no_ray_joined_is_told(tmp_path: Path) -> None:
    Layout(tmp_path, 1).write()
    with pytest.raises(InputError, match="no address of a Ray cluster"):
        open_cluster(tmp_path)


def test_a_replica_that_is_ready_compiles_nothing_for_the_first_query(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "i", "vectors", vocab=8, slices=4)
    index.add_vectors(["a", "b"], sp.csr_array(np.eye(2, 8, dtype=np.float32)), dense=np.ones((2, 4)))
    done = subprocess.run([sys.executable, "-c", LOADED, index.path], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True 0\n", "")


def test_the_first_replica_gets_ready_alone_and_the_others_after_it_together() -> None:
    meeting = threading.Barrier(3)

    def follow() -> None:
        with compile_lock():
            meeting.wait(20)

    others = [threading.Thread(target=follow) for _ in range(2)]
    with compile_lock():
        for other in others:
            other.start()
        time.sleep(0.1)
        assert meeting.n_waiting == 0
    meeting.wait(20)  # both are in at the same time
    for other in others:
        other.join()


@pytest.mark.parametrize("slices", [None, 2])
def test_a_head_is_settled_by_the_words_of_the_collection(tmp_path: Path, slices: int | None) -> None:
    Index.create(tmp_path / "head", "bm25", slices=slices)
    head = Head(tmp_path / "head")
    assert (head.is_settled, head.is_sliced) == (False, slices is not None)
    head.settle(["ant", "bee"], sp.csr_array(np.eye(2, dtype=np.float32)) if slices else None, None)
    assert Head(tmp_path / "head").is_settled
    batch = [Doc("a")], Encoded(sp.csr_array(np.ones((1, 2), np.float32)))
    assert new_shard(tmp_path / "head", tmp_path / "shard", [batch]) == 1
    assert Index.open(tmp_path / "shard").search("bee").ids == ("a",)


@pytest.mark.parametrize("encoder", ["bm25", "mini", "vectors"])
def test_a_replica_of_an_empty_shard_gets_ready(tmp_path: Path, encoder: str) -> None:
    Index.create(tmp_path / "i", encoder, vocab=8 if encoder == "vectors" else None)
    assert Replica(str(tmp_path / "i")).ready()


def _found(sorted_rows: list[tuple[float, str]]) -> Found:
    scores = -np.array([score for score, _ in sorted_rows], dtype=np.float32)
    places = np.zeros(len(sorted_rows), dtype=np.int64)
    return Found(places, places, [id for _, id in sorted_rows], scores, scores, NO_SCORES)


def _write_npz(path: Path, weights: sp.csr_array) -> Path:
    sp.save_npz(path, sp.csr_array(weights))
    path.with_suffix(".ids.txt").write_text("".join(f"v{row}\n" for row in range(weights.shape[0])))
    return path
