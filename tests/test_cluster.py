"""A cluster on Ray, with three nodes on this machine: it searches as one index does, and outlives what dies."""

from __future__ import annotations

import os
import pickle
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
from denslice.cluster.cluster import Cluster
from denslice.cluster.cluster_build import Workers, build_cluster
from denslice.cluster.cluster_folder import Layout
from denslice.cluster.replicas import ReplicaOptions
from denslice.corpus.documents import read_docs
from denslice.options import IndexKeywords
from denslice.rankings import Ranking
from denslice.store.snapshot import Snapshot
from three_nodes import Nodes, Unseen, questions, three_nodes, wait_until_gone, write_texts

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
    chosen: IndexKeywords = {"encoder": "bm25", "slices": 16, "filterable": ["year"], "phrases": 0.3}
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
    index = ds.Index.create(to, "bm25", slices=16, filterable=["year"], options={"phrases": 0.3})
    index.add(read_docs([texts]))
    return index


def test_shards_have_one_slicing_and_the_ids_of_one_index(built: Path, whole: ds.Index) -> None:
    layout = Layout(built, SHARDS)
    for number in range(SHARDS):
        ours, theirs = Snapshot(layout.shard(number)).slicing, Snapshot(whole.path).slicing
        assert ours is not None
        assert theirs is not None
        np.testing.assert_array_equal(ours.slice_of, theirs.slice_of)
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
        {"k": 10, "group": False},
        {"k": 300, "group": False},
        {"k": 10, "where": {"year": {"gte": 2010}}},
        {"k": 10, "where": {"id": "none has this"}},
        {"k": 10, "offset": 15, "min_score": 0.5},
        {"k": 10, "sort_by": "-year", "offset": 5},
        {"k": 3, "group_by": "year", "per_group": 4},
    ],
)
def test_search_equals_one_index(cluster: Cluster, whole: ds.Index, how: dict[str, Any]) -> None:
    _same(cluster.search_batch(ASKED, **how), whole.search_batch(ASKED, **how))


def test_facets_pages_and_similar_documents_equal_one_index(cluster: Cluster, whole: ds.Index) -> None:
    ours, theirs = (one.search(ASKED[0], 7, facets=["year"]) for one in (cluster, whole))
    assert list(ours.facets["year"].items()) == list(theirs.facets["year"].items())
    assert ours.matching == theirs.matching > 7
    after = cluster.search(ASKED[0], 7, cursor=ours.cursor)
    assert ours.ids + after.ids == whole.search(ASKED[0], 14).ids
    with pytest.raises(ds.InputError, match="of another commit"):
        cluster.search(ASKED[0], 7, cursor=theirs.cursor)
    id = theirs.ids[0]
    _same([cluster.similar(id, 5)], [whole.similar(id, 5)])
    with pytest.raises(ds.InputError, match="no document has the id 'nobody'"):
        cluster.similar("nobody")


def test_a_field_that_no_shard_has_is_warned_of_once(cluster: Cluster) -> None:
    with pytest.warns(ds.DensliceWarning, match="no document has the field 'yeer'") as caught:
        assert cluster.search("bakor", where={"yeer": 2010}).ids == ()
    assert len(caught) == 1


def test_one_query_its_texts_and_its_explanation_equal_one_index(cluster: Cluster, whole: ds.Index) -> None:
    found, expected = cluster.search(ASKED[0], 5), whole.search(ASKED[0], 5)
    assert list(found) == list(expected)
    assert [cluster.explain(ASKED[0], hit.id) for hit in found] == [whole.explain(ASKED[0], hit.id) for hit in found]
    passages, ours = cluster.search(ASKED[0], 9, group=False), whole.search(ASKED[0], 9, group=False)
    assert list(passages) == list(ours)
    assert passages.explanations() == ours.explanations()
    assert cluster.info().passages == whole.info().passages > len(whole)  # type: ignore[operator]
    assert found.missing == ()
    assert cluster.get(found[0].id) == whole.get(found[0].id)
    assert cluster.get("nobody") is None
    assert len(cluster) == len(whole)
    assert sorted(doc.id for doc in cluster.docs()) == sorted(doc.id for doc in whole.docs())
    told = cluster.info()
    same = ("documents", "weights", "encoder", "slicing", "slices", "query", "filterable", "vocabulary", "dimensions")
    assert {name: told[name] for name in same} == {name: whole.info()[name] for name in same}
    assert (told["shards"], told["replicas"]) == (3, 2)
    assert repr(cluster) == f"<Cluster {str(cluster.path)!r}: 400 documents, bm25, generation {cluster.generation}>"
    cluster.verify()


def test_a_run_equals_that_of_one_index(cluster: Cluster, whole: ds.Index) -> None:
    queries = [ds.Query(f"q{at}", text) for at, text in enumerate(ASKED)]
    run = list(cluster.rank(queries))
    assert [ranking.query_id for ranking in run] == [query.id for query in queries]
    _same(run, list(whole.rank(queries)))


def test_a_langchain_retriever_takes_a_cluster(cluster: Cluster, whole: ds.Index) -> None:
    adapter = pytest.importorskip("denslice.adapters.langchain")
    found = adapter.DensliceRetriever(index=cluster, k=3).invoke(ASKED[0])
    assert [doc.id for doc in found] == list(whole.search(ASKED[0], 3).ids)


def test_bad_input_is_the_error_an_index_gives(cluster: Cluster) -> None:
    with pytest.raises(ds.InputError, match="unknown operator 'near'"):
        cluster.search("bakor", where={"year": {"near": 1}})
    with pytest.raises(ds.InputError, match="no document 'nobody'"):
        cluster.explain("bakor", "nobody")
    with pytest.raises(ds.InputError, match="mode dense needs dense vectors"):
        cluster.search("bakor", mode="dense")
    with pytest.raises(ds.InputError, match="documents come in a list"):
        cluster.add({"id": "1"})  # type: ignore[dict-item]
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
    assert (cluster.update("d1", {"year": 3000}), cluster.update("nobody", {})) == (True, False)
    assert whole.update("d1", {"year": 3000})
    assert cluster.get("d1") == whole.get("d1")
    _same(cluster.search_batch(asked, 30), whole.search_batch(asked, 30))
    assert cluster.refresh() is False
    assert cluster.add([]) == 0
    assert reader.refresh() is True
    cluster.verify()


def test_a_backup_of_a_cluster_is_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    cluster.backup(tmp_path / "copy")
    copy = Cluster(Layout(tmp_path / "copy", SHARDS), ReplicaOptions(cpus=0.1), complete=True)
    try:
        _same(copy.search_batch(ASKED, 30), cluster.search_batch(ASKED, 30))
        copy.verify()
    finally:
        copy.close()


def test_a_cluster_says_that_it_cannot_be_pickled(cluster: Cluster) -> None:
    with pytest.raises(ds.InputError, match="open it there with open_cluster"):
        pickle.dumps(cluster)


def test_another_driver_sees_changes_when_it_refreshes(built: Path, cluster: Cluster) -> None:
    other = Cluster(Layout(built, SHARDS), ReplicaOptions(cpus=0.1), complete=True)
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


@pytest.mark.parametrize("chosen", [{}, {"slices": 8, "query": "sliced"}], ids=["every token", "sliced"])
def test_ready_vectors_equal_one_index(nodes: Nodes, tmp_path: Path, chosen: IndexKeywords) -> None:
    made = np.random.default_rng(0)
    weights = sp.random(300, 64, 0.2, format="csr", dtype=np.float32, rng=made)
    ids = [f"v{row}" for row in range(300)]
    sp.save_npz(tmp_path / "v.npz", weights)
    (tmp_path / "v.ids.txt").write_text("".join(f"{id}\n" for id in ids))
    assert (
        build_cluster([str(tmp_path / "v.npz")], tmp_path / "c", chosen, 2, Unseen(), WORKERS, part_bytes=20_000) == 300
    )
    whole = ds.Index.create(tmp_path / "i", "vectors", vocab=64, **chosen)  # type: ignore[misc]
    whole.add_vectors(ids, weights)
    queries = sp.random(20, 64, 0.1, format="csr", dtype=np.float32, rng=made)
    with ds.open_cluster(tmp_path / "c", cpus=0.1) as cluster:
        _same(cluster.search_vectors_batch(queries, k=25), whole.search_vectors_batch(queries, k=25))
        for row in range(20):
            query = queries[[row]]
            _same([cluster.search_vectors(query, k=25)], [whole.search_vectors(query, k=25)])
        assert cluster.explain_vectors(queries[[0]], "v1") == whole.explain_vectors(queries[[0]], "v1")
        assert cluster.add_vectors(["v1", "new"], weights[:2]) == whole.add_vectors(["v1", "new"], weights[:2])
        _same([cluster.search_vectors(queries[[0]])], [whole.search_vectors(queries[[0]])])
        with pytest.raises(ds.InputError, match="the dense vectors have 4 dimensions, expected 0"):
            cluster.add_vectors(["dense"], weights[:1], dense=np.ones((1, 4)))


def test_the_embedded_model_on_workers_with_a_card_each_equals_one_index(nodes: Nodes, tmp_path: Path) -> None:
    path = write_texts(tmp_path / "docs.jsonl", 40)
    whole = ds.Index.create(tmp_path / "i")
    whole.add(read_docs([path]))
    workers = Workers(0.6, gpus=1.0)
    assert build_cluster([str(path)], tmp_path / "c", {}, 2, Unseen(), workers, 4_000) == 40
    with ds.open_cluster(tmp_path / "c", cpus=0.1, gpus=0.2) as cluster:
        for mode in (None, "lexical", "dense"):
            _same(cluster.search_batch(ASKED[:5], mode=mode), whole.search_batch(ASKED[:5], mode=mode))
        ours, expected = ([(hit.lexical, hit.dense) for hit in one.search(ASKED[0], 3)] for one in (cluster, whole))
        np.testing.assert_allclose(ours, expected, atol=CLOSE)


# --- shared


def _same(found: Sequence[Ranking], expected: Sequence[Ranking]) -> None:
    assert [ranking.ids for ranking in found] == [ranking.ids for ranking in expected]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, atol=CLOSE, rtol=0)
        assert one.passages == other.passages


def _owned(id: str, shard: int) -> bool:
    return Layout(Path(), SHARDS).owner(id) == shard


def _end(cluster: Cluster, shard: int) -> None:
    """Ends a shard's only replica for good. Ray is only asked to, and a process may still answer before it goes."""
    import ray

    (actor,) = cluster.reader.replicas._actors[shard]
    pid = ray.get(actor.__ray_call__.remote(lambda _: os.getpid()))
    ray.kill(actor, no_restart=True)
    wait_until_gone([pid])
