"""Compares a Ray cluster of three nodes on this machine with one index: results, failures and what Ray costs.

--texts FOLDER takes a BEIR folder, --vectors FOLDER a folder with docs.npz and queries.npz. The script builds an index
and a cluster, kills the driver of a second build halfway and resumes it, compares every query's ranking with the
index's, kills a node during 500 queries, and then times single queries and batches, both contenders in turn. Appends a
line to results/cluster.jsonl.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import journal

sys.path.insert(0, str(journal.ROOT / "tests"))
from denslice import Index, Query, Ranking, open_cluster
from denslice.cluster.cluster import Cluster
from denslice.cluster.cluster_build import build_cluster
from denslice.corpus.documents import read_docs, read_queries
from denslice.index.search_verbs import SearchVerbs
from denslice.options import IndexKeywords
from denslice.reproduce.table_page import markdown
from three_nodes import Nodes, Unseen, three_nodes

PACKAGES = ("numpy", "scipy", "numba", "ray", "pyarrow", "pandas")
CLOSE = 1e-4
STREAM, KILLED_AT = 500, 100
KS = (10, 100, 1000)
Collection = tuple[list[str], list[Query]]


def main() -> None:
    """Build, check, kill, time, print and append the line."""
    asked = _arguments()
    with tempfile.TemporaryDirectory() as work, three_nodes() as nodes:
        figures = measure(asked, Path(work), nodes)
    print(table([figures]))
    print(journal.append("cluster", PACKAGES, vars(asked), figures))


def measure(asked: argparse.Namespace, work: Path, nodes: Nodes) -> dict[str, Any]:
    """Return all figures of one collection."""
    inputs, chosen = _texts(asked) if asked.texts else _vectors(asked, work)
    queries = _queries(asked)
    whole, built = _whole(asked, inputs, chosen, work / "whole")
    took = time.perf_counter()
    documents = build_cluster(inputs, work / "cluster", chosen, asked.shards, Unseen())
    figures: dict[str, Any] = {
        "collection": Path(asked.texts or asked.vectors).name,
        "documents": documents,
        "build": {"one_index_s": built, "cluster_s": round(time.perf_counter() - took, 2)},
        "resumed": resumed(asked, inputs, chosen, work / "again", nodes),
    }
    with open_cluster(work / "cluster", replicas=2, cpus=0.1, complete=True) as cluster:
        figures["equal"] = equal(cluster, whole, queries)
        figures["cost"] = cost(cluster, whole, queries, asked.timed)
        figures["killed_node"] = killed(cluster, whole, queries, nodes)
        figures["after"] = equal(cluster, whole, queries)
    return figures


# --- building


def _whole(asked: argparse.Namespace, inputs: list[str], chosen: IndexKeywords, to: Path) -> tuple[Index, float]:
    began = time.perf_counter()
    if asked.texts:
        index = Index.create(to, **chosen)
        index.add(read_docs(inputs))
    else:
        weights = sp.csr_array(sp.load_npz(inputs[0]))
        index = Index.create(to, "vectors", vocab=weights.shape[1], slices=chosen["slices"])
        index.add_vectors([f"{row}" for row in range(weights.shape[0])], weights)
    return index, round(time.perf_counter() - began, 2)


def resumed(asked: argparse.Namespace, inputs: list[str], chosen: IndexKeywords, to: Path, nodes: Nodes) -> Any:
    """Resume a build that was killed when half its parts were encoded, and again when half its shards were written."""
    parts = _killed_when(asked, inputs, chosen, to, nodes, lambda: _half_done(to / "building" / "parts", to))
    shards = _killed_when(asked, inputs, chosen, to, nodes, lambda: len(_names(to / "shards")) >= asked.shards // 2)
    before = {name: (to / "shards" / name).stat().st_ino for name in _names(to / "shards")}
    if (to / "cluster.json").exists() or not before:
        raise SystemExit("the build was not killed while it wrote shards")
    began = time.perf_counter()
    documents = build_cluster(inputs, to, chosen, asked.shards, Unseen())
    took = time.perf_counter() - began
    after = {name: (to / "shards" / name).stat().st_ino for name in before}
    if after != before:
        raise SystemExit("a finished shard was written again")
    told = {"killed_after_s": [round(parts, 2), round(shards, 2)], "rest_s": round(took, 2)}
    return told | {"documents": documents, "shards_kept": len(before)}


def _half_done(parts: Path, to: Path) -> bool:
    plan = to / "building" / "plan.json"
    return plan.exists() and 2 * len(_names(parts)) >= plan.read_text().count('"files"') > 0


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("[0-9]*")]


def _killed_when(
    asked: argparse.Namespace,
    inputs: list[str],
    chosen: IndexKeywords,
    to: Path,
    nodes: Nodes,
    reached: Callable[[], bool],
) -> float:
    """Kill a build when it has got as far as `reached` says, and return how many seconds it ran."""
    code = (
        "from pathlib import Path; from three_nodes import Unseen\n"
        "from denslice.cluster import ray_engine; from denslice.cluster.cluster_build import build_cluster\n"
        f"ray_engine.connect({nodes.address!r})\n"
        f"build_cluster({inputs!r}, Path({str(to)!r}), {chosen!r}, {asked.shards}, Unseen())\n"
    )
    began = time.perf_counter()
    paths = os.pathsep.join(path for path in sys.path if path)
    driver = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": paths})
    while not reached() and driver.poll() is None:
        time.sleep(0.002)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    return time.perf_counter() - began


# --- verifying


def equal(cluster: Cluster, whole: Index, queries: Sequence[Query]) -> dict[str, Any]:
    """Compare every query's ranking; stop the benchmark if ids differ, or scores by more than CLOSE."""
    largest = 0.0
    for k in KS:
        for one, other in zip(cluster.rank(queries, k), whole.rank(queries, k), strict=True):
            largest = max(largest, _difference(one, other))
    return {"queries": len(queries), "k": list(KS), "largest_difference": largest}


def _difference(one: Ranking, other: Ranking) -> float:
    if one.ids != other.ids or one.missing:
        raise SystemExit(f"query {one.query_id}: the cluster's ranking differs from one index's; nothing is timed")
    largest = float(np.abs(np.array(one.scores) - np.array(other.scores)).max(initial=0.0))
    if largest > CLOSE:
        raise SystemExit(f"query {one.query_id}: scores differ by {largest:.2g}; nothing is timed")
    return largest


def killed(cluster: Cluster, whole: Index, queries: Sequence[Query], nodes: Nodes) -> dict[str, Any]:
    """Send a stream of single queries and kill a node after the first hundred; every answer must be right."""
    stream = [queries[at % len(queries)] for at in range(STREAM)]
    expected = {query.id: next(whole.rank([query], 10)) for query in queries[:STREAM]}
    took = []
    for at, query in enumerate(stream):
        if at == KILLED_AT:
            nodes.kill()
        began = time.perf_counter()
        ranking = next(cluster.rank([query], 10))
        took.append(1000 * (time.perf_counter() - began))
        _difference(ranking, expected[query.id])
    nodes.others.append(nodes.add())
    return {"queries": STREAM, "right": len(took), "p50_ms": _p(took, 50), "slowest_ms": round(max(took), 1)}


# --- timing


def cost(cluster: Cluster, whole: Index, queries: Sequence[Query], timed: int) -> dict[str, Any]:
    """Return milliseconds of single queries and of batches, cluster and index in turn, k = 10."""
    some = list(islice(queries, timed))
    single: dict[str, list[float]] = {"cluster": [], "one_index": []}
    batched: dict[str, list[float]] = {"cluster": [], "one_index": []}
    contenders: dict[str, SearchVerbs] = {"cluster": cluster, "one_index": whole}
    for query in some:
        for name, contender in contenders.items():
            single[name].append(_ms(lambda: next(contender.rank([query], 10))))  # noqa: B023 (called at once)
    for _ in range(5):
        for name, contender in contenders.items():
            batched[name].append(_ms(lambda: list(contender.rank(some, 10))) / len(some))  # noqa: B023
    added = np.median(single["cluster"]) - np.median(single["one_index"])
    return {
        "single_ms": {name: {"p50": _p(times, 50), "p95": _p(times, 95)} for name, times in single.items()},
        "ray_adds_ms": round(float(added), 3),
        f"batches_of_{len(some)}_ms_a_query": {name: _p(times, 50) for name, times in batched.items()},
    }


def _ms(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - began)


def _p(times: Sequence[float], percent: float) -> float:
    return round(float(np.percentile(times, percent)), 3)


def table(lines: Sequence[dict[str, Any]]) -> str:
    """Return the figures as Markdown, with a column for each collection."""
    head = ["", *(f"{one['collection']}, {one['documents']:,} documents" for one in lines)]
    rows: dict[str, Callable[[Any], str]] = {
        "queries with the same ranking as one index, k = 10, 100 and 1000": lambda o: f"{o['equal']['queries']:,}",
        "largest difference of a score": lambda o: f"{o['equal']['largest_difference']:.1g}",
        "right answers to 500 queries while a node is killed": lambda o: f"{o['killed_node']['right']}",
        "the slowest of them, ms": lambda o: f"{o['killed_node']['slowest_ms']:,.0f}",
        "a single query, one index, ms: p50 (p95)": lambda o: _single(o, "one_index"),
        "a single query, cluster, ms: p50 (p95)": lambda o: _single(o, "cluster"),
        "Ray's share of a single query, ms": lambda o: f"{o['cost']['ray_adds_ms']:.2f}",
        "batches, one index, ms a query": lambda o: _batched(o, "one_index"),
        "batches, cluster, ms a query": lambda o: _batched(o, "cluster"),
        "building one index, s": lambda o: f"{o['build']['one_index_s']:.1f}",
        "building the cluster, s": lambda o: f"{o['build']['cluster_s']:.1f}",
        "finished shards that a build killed twice kept": lambda o: f"{o['resumed']['shards_kept']}",
    }
    return markdown(head, [[name, *map(cell, lines)] for name, cell in rows.items()])


def _single(one: dict[str, Any], name: str) -> str:
    times = one["cost"]["single_ms"][name]
    return f"{times['p50']:.2f} ({times['p95']:.2f})"


def _batched(one: dict[str, Any], name: str) -> str:
    return f"{next(times[name] for key, times in one['cost'].items() if key.startswith('batches')):.2f}"


# --- reading


def _texts(asked: argparse.Namespace) -> tuple[list[str], IndexKeywords]:
    return [str(Path(asked.texts).absolute())], {"encoder": asked.encoder, "slices": asked.slices}


def _vectors(asked: argparse.Namespace, work: Path) -> tuple[list[str], IndexKeywords]:
    """Link the vectors into the work folder and write ids beside them."""
    path = work / "docs.npz"
    path.symlink_to(Path(asked.vectors).absolute() / "docs.npz")
    with np.load(path) as arrays:
        count = int(arrays["shape"][0])
    path.with_suffix(".ids.txt").write_text("".join(f"{row}\n" for row in range(count)))
    return [str(path)], {"slices": asked.slices}


def _queries(asked: argparse.Namespace) -> list[Query]:
    if asked.texts:
        return list(islice(read_queries(asked.texts), asked.queries))
    rows = sp.csr_array(sp.load_npz(Path(asked.vectors) / "queries.npz"))[: asked.queries]
    pairs = [rows[[row]] for row in range(rows.shape[0])]
    return [
        Query(f"q{at}", vector=dict(zip(map(str, one.indices.tolist()), one.data.tolist(), strict=True)))
        for at, one in enumerate(pairs)
    ]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--texts", help="a BEIR folder")
    source.add_argument("--vectors", help="a folder with docs.npz and queries.npz")
    parser.add_argument("--encoder", default="bm25", help="for --texts")
    parser.add_argument("--slices", type=int, default=768)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--queries", type=int, default=300, help="how many queries are compared")
    parser.add_argument("--timed", type=int, default=200, help="how many queries are timed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
