"""Times adds of one document, at both levels, and searches: while nothing else runs, and while an index is deepened.

    python benchmarks/adds_while_deepening.py COLLECTION [--docs 10000] [--adds 500]

COLLECTION is a folder in BEIR's layout. Its first documents are indexed at the quick level, and the next ones are added
one by one: in Python while `denslice deepen` runs in another process, and over HTTP by `denslice serve --deepen 0.5`.
Each measurement starts from the same index and adds the same documents. The line is appended to
results/adds_while_deepening.jsonl only if every document is found afterwards.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from itertools import islice, pairwise, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import journal
from commits import percentiles
from denslice import Doc, Index
from denslice.corpus.documents import read_docs, read_queries
from denslice.reproduce.table_page import markdown
from serve_load import serving

PACKAGES = ("numpy", "numba", "onnxruntime", "fastapi", "uvicorn")
LEVELS = ("full", "quick")
WARM = 5  # rounds that are not timed
WARM_QUERIES = 100  # other queries than those that are timed, which the model remembers
KEY = "of-the-benchmark"
POLL = 0.2  # seconds
MOST_SECONDS = 300  # until the first commit of deepening
SETTINGS = {"process": "Python, `denslice deepen` beside it", "server": "HTTP, `denslice serve --deepen {share:g}`"}
WHAT = {"full": "add, level full", "quick": "add, level quick", "search": "search"}


@dataclass(frozen=True)
class Round:
    """What is timed one after the other: an add at each level, and a search."""

    docs: dict[str, Doc]  # by level
    query: str


class Front(Protocol):
    """A way to use an index: in Python or over HTTP."""

    def add(self, doc: Doc, level: str) -> None:
        """Add one document."""

    def search(self, query: str) -> None:
        """Search for ten documents."""

    def quick(self) -> int:
        """Return how many documents are at the quick level."""


class InPython:
    """The methods of an Index."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def add(self, doc: Doc, level: str) -> None:
        """Add one document."""
        self._index.add([doc], level=level)

    def search(self, query: str) -> None:
        """Search for ten documents."""
        self._index.search(query)

    def quick(self) -> int:
        """Return how many documents are at the quick level."""
        self._index.refresh()
        return self._index.info().quick


class OverHttp:
    """One connection to a server."""

    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port)

    def add(self, doc: Doc, level: str) -> None:
        """Add one document."""
        given = {"id": doc.id, "title": doc.title, "text": doc.text}
        self._ask("POST", "/documents", {"documents": [given], "level": level})

    def search(self, query: str) -> None:
        """Search for ten documents."""
        self._ask("POST", "/search", {"query": query})

    def quick(self) -> int:
        """Return how many documents are at the quick level."""
        return int(self._ask("GET", "/index")["quick"])

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
        self._connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self._connection.getresponse()
        told = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{method} {path}: {answer.status} {told.decode()}")
        return json.loads(told)


# --- settings


@contextmanager
def in_python(folder: Path, deepens: bool) -> Iterator[Front]:
    """Yield an open index, while another process deepens it or not."""
    with Index.open(folder) as index:
        if not deepens:
            yield InPython(index)
            return
        command = [sys.executable, "-m", "denslice", "deepen", str(folder)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as other:
            try:
                yield InPython(index)
            finally:
                other.terminate()


@contextmanager
def over_http(folder: Path, deepens: bool, share: float) -> Iterator[Front]:
    """Yield a connection to a server, which deepens its index or not."""
    more = ("--deepen", str(share)) if deepens else ()
    with serving(str(folder), "--writable", "--api-key", KEY, *more) as (_, port):
        yield OverHttp(port)


# --- what is measured


def built(path: Path, docs: Sequence[Doc]) -> Index:
    """Return an index with all documents at the quick level."""
    index = Index.create(path)
    index.add(docs, level="quick")
    if (len(index), index.info().quick) != (len(docs), len(docs)):
        raise SystemExit(f"{index.info().quick:,} of {len(docs):,} documents are at the quick level; nothing is timed")
    return index


def rounds(docs: Sequence[Doc], queries: Sequence[str]) -> list[Round]:
    """Return the rounds; the text of each document ends with a word of its own."""
    marked = [replace(doc, id=f"added {doc.id}", text=f"{doc.text} {own_word(at)}") for at, doc in enumerate(docs)]
    pairs = zip(marked[::2], marked[1::2], strict=True)
    return [Round(dict(zip(LEVELS, pair, strict=True)), query) for pair, query in zip(pairs, queries, strict=True)]


def own_word(at: int) -> str:
    """Return the word that one added document has."""
    return f"xqz{at}"


def warm_up(front: Front, some: Sequence[Round], queries: Sequence[str]) -> None:
    """Compile and load what adds and searches need."""
    for one in some:
        timed_round(front, one)
    for query in queries:
        front.search(query)


def measured(front: Front, some: Sequence[Round], deepens: bool) -> dict[str, Any]:
    """Return milliseconds of adds and searches, and how many documents were deepened meanwhile."""
    before, began = front.quick(), time.perf_counter()
    times = [timed_round(front, one) for one in some]
    seconds, left = time.perf_counter() - began, front.quick()
    deepened = before + len(times) - left
    if deepens and not left:
        raise SystemExit("nothing was left to deepen before the last add; give more --docs")
    if deepens and not deepened:
        raise SystemExit("deepening made no commit between the first add and the last; give more --adds")
    ms = {name: percentiles([one[name] for one in times]) for name in WHAT}
    return {"ms": ms, "seconds": round(seconds, 1), "deepened": deepened}


def await_commit(front: Front, docs: int) -> None:
    """Return when deepening has made its first commit."""
    until = time.monotonic() + MOST_SECONDS
    while front.quick() > docs:
        if time.monotonic() > until:
            raise SystemExit(f"deepening has made no commit in {MOST_SECONDS} seconds")
        time.sleep(POLL)


def timed_round(front: Front, one: Round) -> dict[str, float]:
    """Return the seconds of each part of a round."""
    at = [time.perf_counter()]
    for level, doc in one.docs.items():
        front.add(doc, level)
        at.append(time.perf_counter())
    front.search(one.query)
    at.append(time.perf_counter())
    return {name: end - began for name, (began, end) in zip(WHAT, pairwise(at), strict=True)}


def check(folder: Path, old: Sequence[Doc], some: Sequence[Round]) -> None:
    """Stop the benchmark if a document is missing, changed or not found."""
    added = [doc for one in some for doc in one.docs.values()]
    expected = {doc.id: doc for doc in (*old, *added)}
    with Index.open(folder) as index:
        index.verify()
        there = {doc.id: doc for doc in index.docs()}
        lost = [at for at, doc in enumerate(added) if index.search(own_word(at), mode="lexical").ids != (doc.id,)]
    if there != expected or lost:
        wrong = [id for id, doc in expected.items() if there.get(id) != doc]
        raise SystemExit(f"{len(wrong)} documents are missing or changed, {len(lost)} not found: nothing is reported")


def main() -> None:
    """Measure, check, print and append the line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collection", type=Path)
    parser.add_argument("--docs", type=int, default=10_000)
    parser.add_argument("--adds", type=int, default=500, help="at each level")
    parser.add_argument("--share", type=float, default=0.5, help="of a core's time that the server deepens with")
    given = parser.parse_args()
    count = given.adds + WARM
    stream = read_docs([given.collection])
    old, new = list(islice(stream, given.docs)), list(islice(stream, 2 * count))
    queries = [query.text for query in islice(read_queries(given.collection), count + WARM_QUERIES)]
    some = rounds(new, queries[:count])
    figures: dict[str, Any] = {"documents": len(old)}
    with TemporaryDirectory(prefix="denslice-adds-") as temporary:
        base = built(Path(temporary, "base.idx"), old)
        for setting, state in product(SETTINGS, ("idle", "deepening")):
            folder, deepens = Path(temporary, f"{setting}-{state}.idx"), state == "deepening"
            base.backup(folder)
            way = in_python(folder, deepens) if setting == "process" else over_http(folder, deepens, given.share)
            with way as front:
                warm_up(front, some[:WARM], queries[count:])
                if deepens:
                    await_commit(front, len(old))
                figures.setdefault(setting, {})[state] = measured(front, some[WARM:], deepens)
            check(folder, old, some)
    print(table(figures, given.share))
    print(journal.append("adds_while_deepening", PACKAGES, vars(given), figures))


def table(figures: dict[str, Any], share: float) -> str:
    """Return the figures as Markdown."""
    rows = []
    for setting, told in SETTINGS.items():
        idle, busy = (figures[setting][state]["ms"] for state in ("idle", "deepening"))
        for name, what in WHAT.items():
            times = [one[name][at] for one in (idle, busy) for at in ("p50", "p99")]
            ratio = f"{busy[name]['p99'] / idle[name]['p99']:.1f}"
            rows.append([told.format(share=share), what, *(f"{ms:.1f}" for ms in times), ratio])
    head = ["", "ms", "idle, p50", "idle, p99", "deepening, p50", "deepening, p99", "p99 / idle"]
    return markdown(head, rows)


if __name__ == "__main__":
    main()
