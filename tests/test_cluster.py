"""A cluster on Ray, with three nodes on this machine: it searches as one index does, and outlives what dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import denslice as ds
from denslice.cluster.asking import Serving
from denslice.cluster.building import Workers, build_cluster
from denslice.cluster.cluster import Cluster
from denslice.cluster.layout import Layout
from denslice.cluster.merging import merge
from denslice.cluster.shard import Shard
from denslice.corpus import read_docs
from denslice.records import Ranking
from denslice.search.retrieve import Settings
from denslice.view import View
from three_nodes import Nodes, Unseen, questions, three_nodes, write_texts

CLOSE = 1e-4
WORKERS = Workers(cpus=0.6)  # one a node, beside replicas
SHARDS = 3
ASKED = questions(60)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with three_nodes(cards=1) as nodes:  # Ray lends what it is told there is: here cards that nobody uses
        yield nodes


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts") / "docs.jsonl", 400)


@pytest.fixture(scope="module")
def built(nodes: Nodes, texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bm25 cluster of three shards, made of a dozen parts."""
    to = tmp_path_factory.mktemp("built") / "cluster"
    chosen = {"encoder": "bm25", "slices": 16, "filterable": ["year"]}
    counter = Unseen()
    assert build_cluster([str(texts)], to, chosen, SHARDS, counter, WORKERS, part_bytes=8_000) == 400
    assert len(counter.seen) > 8
    assert sum(counter.seen) == 400
    return to


@pytest.fixture(scope="module")
def cluster(built: Path) -> Iterator[Cluster]:
    with ds.open_cluster(built, replicas=2, cpus=0.1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def whole(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> ds.Index:
    """One index over the same documents."""
    to = tmp_path_factory.mktemp("whole") / "index"
    index = ds.Index.create(to, "bm25", slices=16, filterable=["year"])
    index.add(read_docs([texts]))
    return index


def test_shards_have_one_slicing_and_the_ids_of_one_index(built: Path, whole: ds.Index) -> None:
    layout = Layout(built, SHARDS)
    for number in range(SHARDS):
        assert (layout.shard(number) / "slicing.npy").read_bytes() == (whole.path / "slicing.npy").read_bytes()
    info = ds.open_index(layout.shard(0)).info()
    assert info["vocabulary"] == whole.info()["vocabulary"]
    assert not (built / "building").exists()
    assert sorted(path.name for path in built.iterdir()) == ["cluster.json", "head", "shards"]


def test_a_shard_is_an_index_by_itself(built: Path) -> None:
    shard = ds.open_index(Layout(built, SHARDS).shard(1))
    shard.verify()
    assert len(shard.search("bakor takor")) == 10


@pytest.mark.parametrize(
    "how",
    [
        {"k": 10},
        {"k": 1},
        {"k": 1_000},
        {"k": 10, "where": {"year": {"gte": 2010}}},
        {"k": 10, "where": {"title": "none has this"}},
    ],
)
def test_search_equals_one_index(cluster: Cluster, whole: ds.Index, how: dict[str, Any]) -> None:
    _same(cluster.search_batch(ASKED, **how), whole.search_batch(ASKED, **how))


def test_one_query_its_texts_and_its_explanation_equal_one_index(cluster: Cluster, whole: ds.Index) -> None:
    found, expected = cluster.search(ASKED[0], 5), whole.search(ASKED[0], 5)
    assert list(found) == list(expected)
    assert [cluster.explain(ASKED[0], hit.id) for hit in found] == [whole.explain(ASKED[0], hit.id) for hit in found]
    assert found.missing == ()
    assert cluster.get(found[0].id) == whole.get(found[0].id)
    assert cluster.get("nobody") is None
    assert len(cluster) == len(whole)
    assert sorted(doc.id for doc in cluster.docs()) == sorted(doc.id for doc in whole.docs())
    told = cluster.info()
    same = ("documents", "weights", "encoder", "slicing", "slices", "query", "filterable", "vocabulary", "dimensions")
    assert {name: told[name] for name in same} == {name: whole.info()[name] for name in same}
    assert (told["shards"], told["replicas"]) == (3, 2)
    cluster.verify()


def test_bad_input_is_the_error_an_index_gives(cluster: Cluster) -> None:
    with pytest.raises(ds.InputError, match="unknown operator 'near'"):
        cluster.search("bakor", where={"year": {"near": 1}})
    with pytest.raises(ds.InputError, match="no document 'nobody'"):
        cluster.explain("bakor", "nobody")
    with pytest.raises(ds.InputError, match="mode dense needs dense vectors"):
        cluster.search("bakor", mode="dense")
    with pytest.raises(ds.InputError, match="documents come in a list"):
        cluster.add({"id": "1"})  # type: ignore[arg-type]
    with pytest.raises(ds.InputError, match="given twice"):
        cluster.add([{"id": "1", "text": "a"}, {"id": "1", "text": "b"}])
    with pytest.raises(ds.InputError, match="ids come in a list"):
        cluster.delete("1")


def test_changes_equal_those_of_one_index_and_are_seen_at_once(
    cluster: Cluster, whole: ds.Index, built: Path, tmp_path: Path
) -> None:
    reader = ds.open_index(built / "shards" / "00000")
    more = list(read_docs([write_texts(tmp_path / "more.jsonl", 120, seed=5, first=350)]))
    assert cluster.add(more) == whole.add(more) == 120
    assert len(cluster) == len(whole) == 470
    asked = [*ASKED, "only355 only460", "bakor only469 unknownword"]
    _same(cluster.search_batch(asked, 30), whole.search_batch(asked, 30))
    assert cluster.get("d469") == whole.get("d469")
    gone = [f"d{at}" for at in range(0, 470, 3)] + ["nobody"]
    assert cluster.delete(gone) == whole.delete(gone)
    _same(cluster.search_batch(asked, 30), whole.search_batch(asked, 30))
    assert cluster.merge() > 0
    _same(cluster.search_batch(asked, 30), whole.search_batch(asked, 30))
    assert cluster.refresh() is False
    assert cluster.add([]) == 0
    assert reader.refresh() is True
    cluster.verify()


def test_another_driver_sees_changes_when_it_refreshes(built: Path, cluster: Cluster) -> None:
    other = Cluster(Layout(built, SHARDS), Serving(cpus=0.1), complete=True)
    try:
        cluster.add([{"id": "new", "text": "quetzalcoatlus flies"}])
        assert len(other.search("quetzalcoatlus")) == 0
        assert other.refresh() is True
        assert other.search("quetzalcoatlus")[0].id == "new"
        cluster.delete(["new"])
    finally:
        other.close()


def test_queries_from_several_threads_are_all_answered(cluster: Cluster) -> None:
    expected = {text: cluster.search(text) for text in ASKED[:20]}
    wrong: list[str] = []

    def ask() -> None:
        for text, ranking in expected.items():
            if cluster.search(text) != ranking:
                wrong.append(text)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_shard_that_stays_away_is_named(built: Path, nodes: Nodes) -> None:
    with ds.open_cluster(built, cpus=0.1, patience=0.5, wait=5.0) as partial:
        complete = partial.search_batch(ASKED, 20)
        _end(partial, 1)
        for ranking, before in zip(partial.search_batch(ASKED, 20), complete, strict=True):
            assert ranking.missing == ("shards/00001",)
            kept = [(id, score) for id, score in zip(before.ids, before.scores, strict=True) if not _owned(id, 1)]
            assert list(zip(ranking.ids, ranking.scores, strict=True))[: len(kept)] == kept
        gone = next(id for id in complete[0].ids if _owned(id, 1))
        with pytest.raises(ds.MissingShardsError, match="no answer from shards/00001"):
            partial.get(gone)
        _end(partial, 0)
        _end(partial, 2)
        with pytest.raises(ds.MissingShardsError, match="shards/00000, shards/00001, shards/00002"):
            partial.search("bakor")


def test_a_shard_that_stays_away_is_an_error_where_completeness_was_asked(built: Path, nodes: Nodes) -> None:
    with ds.open_cluster(built, cpus=0.1, patience=0.5, wait=5.0, complete=True) as complete:
        assert complete.search(ASKED[0]).missing == ()
        _end(complete, 2)
        with pytest.raises(ds.MissingShardsError, match="no answer from shards/00002"):
            complete.search(ASKED[0])


def test_a_node_killed_during_a_stream_of_queries_costs_no_answer(
    cluster: Cluster, nodes: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = [ASKED[at % len(ASKED)] for at in range(500)]
    expected = {text: cluster.search(text) for text in ASKED}
    took = []
    for at, text in enumerate(stream):
        if at == 100:
            nodes.kill()
        began = time.perf_counter()
        ranking = cluster.search(text)
        took.append(time.perf_counter() - began)
        assert ranking.missing == ()
        _same([ranking], [expected[text]])
    with capsys.disabled():
        sys.stdout.write(f" 500 of 500 right, slowest {max(took):.2f} s ")
    nodes.others.append(nodes.add())


def test_with_one_replica_a_killed_node_costs_a_retry_and_no_answer(built: Path, nodes: Nodes) -> None:
    with ds.open_cluster(built, cpus=0.1, complete=True) as single:
        expected = {text: single.search(text) for text in ASKED[:20]}
        nodes.kill()
        for text, ranking in expected.items():
            _same([single.search(text)], [ranking])
    nodes.others.append(nodes.add())


def test_ready_and_dense_vectors_equal_one_index(nodes: Nodes, tmp_path: Path) -> None:
    made = np.random.default_rng(0)
    weights = sp.random(300, 64, 0.2, format="csr", dtype=np.float32, rng=made)
    ids = [f"v{row}" for row in range(300)]
    sp.save_npz(tmp_path / "v.npz", weights)
    (tmp_path / "v.ids.txt").write_text("".join(f"{id}\n" for id in ids))
    chosen = {"slices": 8, "query": "sliced"}
    assert (
        build_cluster([str(tmp_path / "v.npz")], tmp_path / "c", chosen, 2, Unseen(), WORKERS, part_bytes=20_000) == 300
    )
    whole = ds.Index.create(tmp_path / "i", "vectors", vocab=64, slices=8, query="sliced")
    whole.add_vectors(ids, weights)
    queries = sp.random(20, 64, 0.1, format="csr", dtype=np.float32, rng=made)
    with ds.open_cluster(tmp_path / "c", cpus=0.1) as cluster:
        for row in range(20):
            query = queries[[row]]
            _same([cluster.search_vectors(query, k=25)], [whole.search_vectors(query, k=25)])
        assert cluster.add_vectors(["v1", "new"], weights[:2]) == whole.add_vectors(["v1", "new"], weights[:2])
        _same([cluster.search_vectors(queries[[0]])], [whole.search_vectors(queries[[0]])])


def test_the_embedded_model_on_workers_with_a_card_each_equals_one_index(nodes: Nodes, tmp_path: Path) -> None:
    path = write_texts(tmp_path / "docs.jsonl", 40)
    whole = ds.Index.create(tmp_path / "i", slices=64)
    whole.add(read_docs([path]))
    workers = Workers(0.6, gpus=1.0)
    assert build_cluster([str(path)], tmp_path / "c", {"slices": 64}, 2, Unseen(), workers, 4_000) == 40
    with ds.open_cluster(tmp_path / "c", cpus=0.1, gpus=0.2) as cluster:
        for mode in (None, "lexical", "dense"):
            _same(cluster.search_batch(ASKED[:5], mode=mode), whole.search_batch(ASKED[:5], mode=mode))
        parts = [[(hit.lexical, hit.dense) for hit in one.search(ASKED[0], 3)] for one in (cluster, whole)]
        np.testing.assert_allclose(*parts, atol=CLOSE)


def test_more_cards_than_a_node_has_are_refused_at_once(nodes: Nodes, tmp_path: Path) -> None:
    path = write_texts(tmp_path / "docs.jsonl", 4)
    with pytest.raises(ds.InputError, match="no machine of the Ray cluster has 2 GPUs"):
        build_cluster([str(path)], tmp_path / "c", BM25, 2, Unseen(), Workers(0.6, gpus=2.0))


# --- building, interrupted


def test_a_killed_build_goes_on_where_it_was(nodes: Nodes, tmp_path: Path) -> None:
    texts = write_texts(tmp_path / "docs.jsonl", 600)
    to, parts, shards = tmp_path / "c", 30, 8
    size = texts.stat().st_size // parts
    _build_until(nodes, texts, to, shards, size, lambda: len(_finished(to / "building" / "parts")) >= 3)
    done = _finished(to / "building" / "parts")
    assert 3 <= len(done) < parts, "the driver was to be killed while parts were encoded"
    with pytest.raises(ds.IndexFormatError, match="give the same `denslice index` command again"):
        ds.open_cluster(to)
    _build_until(nodes, texts, to, shards, size, lambda: len(_finished(to / "shards")) >= 2)
    written = _finished(to / "shards")
    assert not (to / "cluster.json").exists(), "the driver was to be killed while shards were written"
    for name, stamp in done.items():
        assert _finished(to / "building" / "parts")[name] == stamp
    with pytest.raises(ds.InputError, match="other number of shards was chosen when a build was begun here"):
        build_cluster([str(texts)], to, BM25, 5, Unseen(), WORKERS, part_bytes=size)
    with pytest.raises(ds.InputError, match="other settings were chosen when a build was begun here"):
        build_cluster([str(texts)], to, {}, shards, Unseen(), WORKERS, part_bytes=size)
    assert build_cluster([str(texts)], to, BM25, shards, Unseen(), WORKERS, part_bytes=size) == 600
    for name, stamp in written.items():
        assert _finished(to / "shards")[name] == stamp
    _equals_whole(texts, to, tmp_path / "i", shards)


def test_a_build_outlives_a_node(nodes: Nodes, tmp_path: Path) -> None:
    texts = write_texts(tmp_path / "docs.jsonl", 600, seed=3)
    to = tmp_path / "c"
    killer = threading.Thread(
        target=lambda: (_wait_for(lambda: len(_finished(to / "building" / "parts")) >= 2), nodes.kill())
    )
    killer.start()
    assert build_cluster([str(texts)], to, BM25, 4, Unseen(), WORKERS, part_bytes=texts.stat().st_size // 40) == 600
    killer.join()
    nodes.others.append(nodes.add())
    _equals_whole(texts, to, tmp_path / "i", 4)


def test_a_bad_line_ends_a_build_in_one_sentence(nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = write_texts(tmp_path / "docs.jsonl", 100)
    with texts.open("a") as file:
        file.write('{"text": "no id"}\n')
    with pytest.raises(ds.InputError, match=r"docs\.jsonl:101: no id"):
        build_cluster([str(texts)], tmp_path / "c", BM25, 2, Unseen(), WORKERS)
    assert not (tmp_path / "c").exists()
    monkeypatch.setattr("denslice.build.SAMPLE", 10)  # so that a worker is the first to see the line
    with pytest.raises(ds.InputError, match=r"docs\.jsonl:101: no id"):
        build_cluster([str(texts)], tmp_path / "c", BM25, 2, Unseen(), WORKERS, part_bytes=4_000)
    texts.write_text(texts.read_text().replace('{"text": "no id"}', '{"id": "d7", "text": "again"}'))
    with pytest.raises(ds.InputError, match="other inputs were chosen when a build was begun here"):
        build_cluster([str(texts)], tmp_path / "c", BM25, 2, Unseen(), WORKERS)
    with pytest.raises(ds.InputError, match="document id 'd7' is given twice"):
        build_cluster([str(texts)], tmp_path / "d", BM25, 2, Unseen(), WORKERS, part_bytes=4_000)


# --- the command line


def test_the_command_builds_and_adds(nodes: Nodes, tmp_path: Path) -> None:
    first, more = write_texts(tmp_path / "a.jsonl", 60), write_texts(tmp_path / "b.jsonl", 30, first=50)
    to = tmp_path / "c"
    options = ["--ray", nodes.address, "--to", str(to), "--cpus", "0.6"]
    done = _denslice("index", str(first), *options, "--shards", "2", "--encoder", "bm25")
    assert done.stderr == ""
    assert done.stdout.startswith(f"indexed 60 documents into {to} (")
    added = _denslice("index", str(more), *options)
    assert (added.returncode, added.stderr) == (0, "")
    assert added.stdout.startswith(f"indexed 30 documents into {to} (")
    assert sum(len(ds.open_index(to / "shards" / name)) for name in ("00000", "00001")) == 80
    wrong = _denslice("index", str(more), *options, "--shards", "3")
    assert wrong.returncode == 2
    assert wrong.stderr == f"error: {to}: has 2 shards, not 3; leave the option out or make another cluster\n"
    assert (
        "was made with --encoder bm25, not mini" in _denslice("index", str(more), *options, "--encoder", "mini").stderr
    )
    asked = _denslice("search", str(to), "bakor")
    assert asked.returncode == 2
    assert "is a cluster of shards and not one index" in asked.stderr
    one = _denslice("search", str(to / "shards" / "00000"), "bakor", "--json")
    assert json.loads(one.stdout.splitlines()[0])["id"].startswith("d")


def test_the_command_says_what_it_lacks(tmp_path: Path) -> None:
    texts = write_texts(tmp_path / "a.jsonl", 3)
    done = _denslice("index", str(texts), "--to", str(tmp_path / "c"), "--shards", "2")
    assert (done.returncode, done.stderr) == (2, "error: --shards needs --ray ADDRESS: where Ray runs, or local\n")


# --- shared

BM25 = {"encoder": "bm25", "slices": 16}


def _same(found: Sequence[Ranking], expected: Sequence[Ranking]) -> None:
    assert [ranking.ids for ranking in found] == [ranking.ids for ranking in expected]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, atol=CLOSE, rtol=0)


def _owned(id: str, shard: int) -> bool:
    return Layout(Path(), SHARDS).owner(id) == shard


def _end(cluster: Cluster, shard: int) -> None:
    """Ends a shard's only replica for good."""
    import ray

    (actor,) = cluster._replicas._actors[shard]
    ray.kill(actor, no_restart=True)


def _equals_whole(texts: Path, to: Path, beside: Path, shards: int) -> None:
    """The shards' rankings, asked here with the whole collection's weights, merge to those of one index."""
    whole = ds.Index.create(beside, "bm25", slices=16)
    whole.add(read_docs([texts]))
    view, settings = View(beside), Settings(20)
    queries = view.query_vectors(view.encode([ds.Query("", text) for text in ASKED]), settings)
    found = [Shard.open(Layout(to, shards).shard(number)).find(queries, settings) for number in range(shards)]
    merged = [merge({at: some[row] for at, some in enumerate(found)}, 20) for row in range(len(ASKED))]
    _same([Ranking("", tuple(one.ids), tuple(one.scores)) for one in merged], whole.search_batch(ASKED, 20))


def _finished(folder: Path) -> dict[str, tuple[int, int]]:
    """What stands in a folder under its own name, with inode and time of change."""
    if not folder.exists():
        return {}
    stats = {path.name: path.stat() for path in folder.iterdir() if not path.name.startswith(".")}
    return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in stats.items()}


def _build_until(nodes: Nodes, texts: Path, to: Path, shards: int, size: int, reached: Any) -> None:
    """Starts a build in a process of its own, and kills that when it is so far."""
    code = (
        "import sys; from pathlib import Path; from three_nodes import Unseen\n"
        "from denslice.cluster import engine; from denslice.cluster.building import Workers, build_cluster\n"
        f"engine.connect({nodes.address!r})\n"
        f"inputs, to, workers = [{str(texts)!r}], Path({str(to)!r}), {WORKERS!r}\n"
        f"build_cluster(inputs, to, {BM25!r}, {shards}, Unseen(), workers, {size})\n"
    )
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    driver = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": paths})
    try:
        _wait_for(lambda: reached() or driver.poll() is not None)
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()


def _wait_for(reached: Any, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.005)


def _denslice(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "denslice", *options], capture_output=True, text=True)
