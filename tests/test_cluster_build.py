"""Building a cluster on Ray, with three nodes on this machine: interrupted, killed, refused, and by the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import denslice as ds
from denslice.__main__ import app
from denslice.cluster.cluster_build import Workers, build_cluster
from denslice.cluster.cluster_folder import Layout
from denslice.corpus.documents import read_docs
from denslice.index.ranking_merge import merge
from denslice.index.reader import Reader
from denslice.options import IndexKeywords, SearchOptions
from denslice.store.snapshot import Snapshot
from three_nodes import Nodes, Unseen, questions, three_nodes, write_texts
from waiting import wait_until

BM25: IndexKeywords = {"encoder": "bm25"}
ASKED = questions(60)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with three_nodes() as nodes:
        yield nodes


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
    with pytest.raises(ds.InputError, match="an interrupted build here has another number of shards"):
        build_cluster([str(texts)], to, BM25, 5, Unseen(), part_bytes=size)
    with pytest.raises(ds.InputError, match="an interrupted build here has other settings"):
        build_cluster([str(texts)], to, {}, shards, Unseen(), part_bytes=size)
    assert build_cluster([str(texts)], to, BM25, shards, Unseen(), part_bytes=size) == 600
    for name, stamp in written.items():
        assert _finished(to / "shards")[name] == stamp
    _equals_whole(texts, to, tmp_path / "i", shards)


def test_a_build_outlives_a_node(nodes: Nodes, tmp_path: Path) -> None:
    texts = write_texts(tmp_path / "docs.jsonl", 600, seed=3)
    to = tmp_path / "c"

    def kill_a_node() -> None:
        wait_until(lambda: len(_finished(to / "building" / "parts")) >= 2)
        nodes.kill()

    killer = threading.Thread(target=kill_a_node)
    killer.start()
    assert build_cluster([str(texts)], to, BM25, 4, Unseen(), part_bytes=texts.stat().st_size // 40) == 600
    killer.join()
    nodes.others.append(nodes.add())
    _equals_whole(texts, to, tmp_path / "i", 4)


def test_a_bad_line_ends_a_build_in_one_sentence(nodes: Nodes, tmp_path: Path) -> None:
    texts = write_texts(tmp_path / "docs.jsonl", 100)
    with texts.open("a") as file:
        file.write('{"text": "no id"}\n')
    with pytest.raises(ds.InputError, match=r"docs\.jsonl:101: no id"):
        build_cluster([str(texts)], tmp_path / "c", BM25, 2, Unseen(), part_bytes=4_000)
    texts.write_text(texts.read_text().replace('{"text": "no id"}', '{"id": "d7", "text": "again"}'))
    with pytest.raises(ds.InputError, match="an interrupted build here has other inputs"):
        build_cluster([str(texts)], tmp_path / "c", BM25, 2, Unseen())
    with pytest.raises(ds.InputError, match="document id 'd7' is given twice"):
        build_cluster([str(texts)], tmp_path / "d", BM25, 2, Unseen(), part_bytes=4_000)


# --- the command line


def test_the_command_builds_and_adds(nodes: Nodes, tmp_path: Path) -> None:
    first, more = write_texts(tmp_path / "a.jsonl", 60), write_texts(tmp_path / "b.jsonl", 30, first=50)
    to = tmp_path / "c"
    options = ["--ray", nodes.address, "--to", str(to)]
    done = _denslice("index", str(first), *options, "--shards", "2", "--encoder", "bm25")
    assert done.stderr == ""
    assert done.stdout.startswith(f"indexed 60 documents into {to} (")
    added = _denslice("index", str(more), *options)
    assert (added.returncode, added.stderr) == (0, "")
    assert added.stdout.startswith(f"indexed 30 documents into {to} (")
    assert sum(len(ds.open_index(to / "shards" / name)) for name in ("00000", "00001")) == 80
    wrong = CliRunner().invoke(app, ["index", str(more), *options, "--shards", "3"])
    assert wrong.exit_code == 2
    assert wrong.stderr == f"error: {to}: has 2 shards, not 3; leave out --shards or build another cluster\n"
    other = CliRunner().invoke(app, ["index", str(more), *options, "--encoder", "mini"])
    assert other.exit_code == 2
    assert "was made with --encoder bm25, not mini" in other.stderr
    asked = CliRunner().invoke(app, ["search", str(to), "bakor"])
    assert asked.exit_code == 2
    assert "is a cluster of shards and not one index" in asked.stderr
    one = CliRunner().invoke(app, ["search", str(to / "shards" / "00000"), "bakor", "--json"])
    assert json.loads(one.stdout.splitlines()[0])["id"].startswith("d")


def test_the_command_says_what_it_lacks(tmp_path: Path) -> None:
    texts = write_texts(tmp_path / "a.jsonl", 3)
    done = CliRunner().invoke(app, ["index", str(texts), "--to", str(tmp_path / "c"), "--shards", "2"])
    assert (done.exit_code, done.stderr) == (
        2,
        "error: --shards needs --ray ADDRESS: the address of a Ray cluster, or local\n",
    )


def test_a_card_that_no_node_has_is_refused_at_once(nodes: Nodes, tmp_path: Path) -> None:
    path = write_texts(tmp_path / "docs.jsonl", 4)
    with pytest.raises(ds.InputError, match="no machine of the Ray cluster has 1 GPUs"):
        build_cluster([str(path)], tmp_path / "c", BM25, 2, Unseen(), Workers(gpus=1.0))


# --- shared


def _equals_whole(texts: Path, to: Path, beside: Path, shards: int) -> None:
    """The shards' rankings, asked here with the whole collection's weights, merge to those of one index."""
    whole = ds.Index.create(beside, "bm25")
    whole.add(read_docs([texts]))
    view, settings = Reader(Snapshot(beside)), SearchOptions(20)
    queries = view.query_vectors(view.encode([ds.Query("", text) for text in ASKED]), settings)
    found = [Reader(Snapshot(Layout(to, shards).shard(number))).find(queries, settings) for number in range(shards)]
    merged = [merge({at: some[row] for at, some in enumerate(found)}, 20) for row in range(len(ASKED))]
    for one, ranking in zip(merged, whole.search_batch(ASKED, 20), strict=True):
        assert tuple(one.ids) == ranking.ids
        np.testing.assert_allclose(one.scores, ranking.scores, atol=1e-4, rtol=0)


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
        "from denslice.cluster import ray_engine; from denslice.cluster.cluster_build import build_cluster\n"
        f"ray_engine.connect({nodes.address!r})\n"
        f"inputs, to = [{str(texts)!r}], Path({str(to)!r})\n"
        f"build_cluster(inputs, to, {BM25!r}, {shards}, Unseen(), part_bytes={size})\n"
    )
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    driver = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": paths})
    try:
        wait_until(lambda: reached() or driver.poll() is not None)
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()


def _denslice(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "denslice", *options], capture_output=True, text=True)
