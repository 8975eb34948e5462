"""`denslice serve --ray`: a real server process over a real Ray cluster of three nodes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

import denslice as ds
from denslice.__main__ import app
from denslice.cluster.cluster_build import build_cluster
from denslice.corpus.documents import read_docs
from serving import KEY, Live
from three_nodes import Unseen, questions, three_nodes, write_texts
from waiting import wait_until

ASKED = questions(20)


def test_a_cluster_is_served_searched_changed_and_outlives_a_node(tmp_path: Path) -> None:
    texts = write_texts(tmp_path / "docs.jsonl", 200)
    whole = ds.Index.create(tmp_path / "whole", "bm25", slices=64)
    whole.add(read_docs([texts]))
    folder = tmp_path / "c"
    with three_nodes() as nodes:
        build_cluster([str(texts)], folder, {"encoder": "bm25", "slices": 64}, 2, Unseen())
        with _serving(
            folder, "--ray", nodes.address, "--replicas", "2", "--writable", "--open", "--api-key", KEY
        ) as live:
            _asked(live, whole)
            told = live.ask("/search", {"queries": ASKED, "k": 5, "explain": True}).json()
            assert {"encode", "search", "documents", "explain"} <= told["took_ms"].keys()
            why = told["results"][0]["hits"][0]["explanation"]
            assert why["score"] == pytest.approx(whole.search(ASKED[0])[0].score)
            new = {"documents": [{"id": "new", "text": "a quetzalcoatlus over badden"}]}
            written = live.ask("/documents", new, "POST", authorization=f"Bearer {KEY}")
            assert (written.status, written.json()["documents"]) == (200, 1)
            whole.add(new["documents"])
            assert live.search("quetzalcoatlus").json()["results"][0]["hits"][0]["id"] == "new"
            place = {"start": 0, "end": len(new["documents"][0]["text"]), "heading": "", "page": None}
            assert live.ask("/documents/new").json()["passages"] == [place]
            assert live.ask("/documents/none").code == "no_document"
            _asked(live, whole)
            nodes.kill()
            _asked(live, whole)
        assert sum(len(ds.open_index(folder / "shards" / f"{number:05d}")) for number in range(2)) == 201


def test_a_cluster_without_an_address_is_told_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text('{"format": 1, "shards": 1}')
    done = CliRunner().invoke(app, ["serve", str(tmp_path)])
    assert done.exit_code == 2
    assert done.stderr == (
        f"error: {tmp_path}: is a cluster of shards; say where Ray runs with --ray ADDRESS or --ray local\n"
    )


def _asked(live: Live, whole: ds.Index) -> None:
    """Every query is answered as one index answers it, by all shards."""
    for text in ASKED:
        (result,) = live.search(text, k=8).json()["results"]
        expected = whole.search(text, 8)
        assert [hit["id"] for hit in result["hits"]] == list(expected.ids)
        assert [hit["score"] for hit in result["hits"]] == pytest.approx(expected.scores, abs=1e-4)
        assert [hit["text"] for hit in result["hits"]] == [hit.text for hit in expected]
        assert result["missing"] == []


@contextmanager
def _serving(folder: Path, *options: str) -> Iterator[Live]:
    """A server process, ready; at the end it is stopped as Ctrl-C stops it."""
    command = [sys.executable, "-u", "-m", "denslice", "serve", str(folder), "--port", "0", *options]
    paths = os.pathsep.join(path for path in sys.path if path)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert "documents) on http://127.0.0.1:" in line
            live = Live(int(line.rpartition(":")[2]))
            wait_until(lambda: live.ask("/readyz").status == 200)
            yield live
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
