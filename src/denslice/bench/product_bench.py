"""The benchmark of products: each is built, checked, timed, changed and killed, in steps that can be resumed.

The figures of a step are kept in the work folder, and a step that was measured with the same commit is not measured
again. So the command can be interrupted and started again until every product has its line.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any

from denslice.bench.product_checks import K, after_changes, change_and_look, check_answers, check_ids, first_for
from denslice.bench.product_kills import BATCHES, KillTest, copy_store, moments, totals
from denslice.bench.product_process import VECTORS, ProductProcess, ProductProgram, core_share, python_of
from denslice.bench.product_texts import (
    JUDGED,
    LENGTH,
    PARTS,
    PLANTED,
    SOURCES,
    TextFolder,
    judged_folder,
    large_folder,
    short_texts,
    some_of,
)
from denslice.bench.product_vectors import MinilmCosts, MinilmVectors, Told
from denslice.errors import InputError
from denslice.evaluate.evaluation import evaluate
from denslice.provenance import commit
from denslice.store.files import replace_file

PRODUCTS = (
    ProductProgram("denslice, words", "denslice", "words"),
    ProductProgram("denslice, quick", "denslice", "quick"),
    ProductProgram("denslice, full", "denslice", "full"),
    ProductProgram("LanceDB", "lancedb"),
    ProductProgram("Chroma", "chroma"),
    ProductProgram("txtai", "txtai"),
    ProductProgram("Qdrant Edge", "qdrant"),
    ProductProgram("Milvus Lite", "milvus"),
    ProductProgram("sqlite-vec + FTS5", "sqlite_vec"),
    ProductProgram("zvec", "zvec"),
    ProductProgram("tantivy", "tantivy"),
    ProductProgram("bm25s + Faiss", "bm25s_faiss"),
)
FEW = 1_000  # texts of the first run of a product
SECONDS, FEWEST = 300, 40  # after so many seconds, a product is not asked more questions than these
BASE, ADDED = 10_000, 5_000  # documents before a kill test, and those that are added in it
MEASURED = ("src", "benchmarks", ":!benchmarks/results")
Figures = dict[str, Any]


def chosen_products(names: Sequence[str]) -> list[ProductProgram]:
    """Return the products whose names begin with one of `names`; all, if there are none."""
    for name in names:
        if not any(one.name.startswith(name) for one in PRODUCTS):
            raise InputError(f"no product {name!r}; there are {'; '.join(one.name for one in PRODUCTS)}")
    if not PRODUCTS[0].path.exists():
        raise InputError(f"{PRODUCTS[0].path}: not found; `denslice bench products` runs in a checkout of denslice")
    return [one for one in PRODUCTS if not names or one.name.startswith(tuple(names))]


@dataclass(frozen=True)
class ProductBench:
    """The collections, a folder for everything that is made, and the sizes."""

    data: Path  # folders in BEIR's layout
    work: Path
    documents: int
    kills: int
    told: Told

    def configuration(self) -> Figures:
        """Return what the figures depend on."""
        base, added = self._kill_sizes
        sizes = {"documents": self.documents, "characters": LENGTH, "k": K, "questions": len(self.large.questions)}
        killed = {"kills": self.kills, "killed_base": base, "killed_added": added, "batches": BATCHES}
        return sizes | killed | {"sources": list(SOURCES), "judged": list(JUDGED), "parts": PARTS}

    def measure(self, program: ProductProgram) -> Figures:
        """Return all figures of a product."""
        large = self._stores(program) / "large" / "store"
        built = self._step(program, "built", lambda: self._built(program, self.large, large))
        searched = self._step(program, "searched", lambda: self._searched(program, large))
        found = built | searched
        found["core_share"] = min(one["core_share"] for one in (built, searched))
        for name in JUDGED:
            step = self._step(program, f"judged-{name}", partial(self._judged, program, name))
            for figure in ("ndcg@10", "ndcg@10_of_queries"):
                found.setdefault(figure, {})[name] = step[figure]
        killed = self._step(program, "kills", lambda: self._killed(program)) if self.kills else None
        shutil.rmtree(self._stores(program), ignore_errors=True)
        return found | {"kills": killed}

    def first_answers(self, program: ProductProgram) -> Figures:
        """Return the seconds to the first answer about a few texts where a product never ran, and again.

        Compiled code is what can be missing: files of a product may be in the cache of the system.
        """
        texts = some_of(self.large, self._sized / "folders" / "few", FEW)
        store = self._stores(program) / "few" / "store"

        def measured() -> Figures:
            shutil.rmtree(self._caches(program), ignore_errors=True)
            never, again = (self._built(program, texts, store)["first_seconds"] for _ in range(2))
            return {"never_run_seconds": never, "again_seconds": again}

        found = self._step(program, "first-answers", measured)
        shutil.rmtree(store.parent, ignore_errors=True)
        needs_minilm = self._about(program)["needs_minilm"]
        minilm = self.costs.seconds([doc["text"] for doc in texts.docs]) if needs_minilm else 0.0
        share = min([found["core_share"], *([self.costs.core_share] if needs_minilm else [])])
        return found | {"minilm_seconds": minilm, "core_share": share}

    @cached_property
    def large(self) -> TextFolder:
        """The folder of texts that is timed."""
        return large_folder(self.data, self._sized / "folders", self.documents)

    @property
    def costs(self) -> MinilmCosts:
        """What the vectors of MiniLM cost that are there."""
        return self._vectors.costs()

    def minilm(self) -> Figures:
        """Return what MiniLM alone takes: the part that products which need it have in common."""
        texts, costs = [doc["text"] for doc in self.large.docs], self.costs
        seconds = costs.seconds(texts)
        query = _spread([costs.query_seconds(text) for text in self.large.questions])
        rate = {"seconds": seconds, "documents_a_second": len(texts) / seconds, "query": query}
        rate["core_share"] = costs.core_share
        return rate | {"load_seconds": costs.load_seconds, "peak_bytes": costs.peak_bytes}

    @property
    def _sized(self) -> Path:
        return self.work / f"{self.documents}"

    @cached_property
    def _vectors(self) -> MinilmVectors:
        return MinilmVectors.under(self.work)

    def _caches(self, program: ProductProgram) -> Path:
        return self.work / "caches" / _slug(program)

    @property
    def _environments(self) -> Path:
        return self.work / "environments"

    @property
    def _kill_sizes(self) -> tuple[int, int]:
        return min(BASE, self.documents // 2), min(ADDED, self.documents // 4)

    def _stores(self, program: ProductProgram) -> Path:
        return self._sized / "stores" / _slug(program)

    def _encode(self, texts: TextFolder) -> None:
        """Encode the texts and questions of a folder, and the planted ones, for products that need MiniLM."""
        planted = [text for one in PLANTED for text in (one.text, one.changed) if text]
        asked = [text for one in PLANTED for text in (one.question, one.changed_question) if text]
        every = [*(doc["text"] for doc in texts.docs), *planted]
        self._vectors.complete(every, [*texts.questions, *asked], self._environments, self.told)

    def _step(self, program: ProductProgram, name: str, measured: Callable[[], Figures]) -> Figures:
        """Return the figures of a step, which are kept for this commit."""
        path = self._sized / "figures" / _slug(program) / f"{name}.json"
        kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        if kept.get("commit") != commit(MEASURED):
            self.told(f"{program.name}: {name}")
            share = core_share()
            kept = {"commit": commit(MEASURED), "core_share": share, "figures": measured()}
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, json.dumps(kept).encode())
        return dict(kept["figures"]) | {"core_share": kept["core_share"]}

    def _started(self, program: ProductProgram, store: Path) -> ProductProcess:
        logs = self.work / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        python = python_of(program, self._environments)
        folders = {VECTORS: self._vectors.folder, "NUMBA_CACHE_DIR": self._caches(program)}
        return ProductProcess(program, python, store, logs / f"{_slug(program)}.log", folders)

    def _about(self, program: ProductProgram) -> Figures:
        """Return what a product tells about itself."""

        def told() -> Figures:
            with self._started(program, self._stores(program)) as product:
                return dict(product.ask("about"))

        return self._step(program, "about", told)

    # --- steps

    def _searched(self, program: ProductProgram, store: Path) -> Figures:
        """Check and time the store of the large folder, and change a copy of it."""
        with self._started(program, store) as product:
            product.ask("open")
            missed = check_answers(product, self.large)
            question, doc = PLANTED[1].question, self.large.planted(1)
            explained = product.ask("explain", text=question, id=doc["id"])
            pipe = median(product.timed("nothing")[0] for _ in range(100))
        shown = None if explained is None else explained.replace(str(store.parent).lstrip("/"), "STORE")[:1_000]
        figures = self._about(program) | self._times(program, store) | self._changed(program, store)
        told = {"explained": shown, "pipe_ms": round(1e3 * pipe, 3), "missed": missed}
        return figures | {"lines": program.lines()} | told

    def _changed(self, program: ProductProgram, store: Path) -> Figures:
        """Change a copy of the store; a new process must find exactly what is left."""
        changed = store.parent.with_name("changed") / store.name
        copy_store(store, changed)
        with self._started(program, changed) as product:
            product.ask("open")
            changes = change_and_look(product, self.large)
        with self._started(program, changed) as product:
            product.ask("open")
            check_ids(product, after_changes(self.large))
        return changes

    def _built(self, program: ProductProgram, texts: TextFolder, store: Path) -> Figures:
        """Build until nothing is left, ask a first question, and return seconds, memory and disk.

        A program that returns before all is done can be continued by another process, and the seconds are added up.
        """
        note = store.parent.with_suffix(".json")
        done = json.loads(note.read_text(encoding="utf-8")) if note.exists() else {"seconds": 0.0, "left": 1, "peak": 0}
        if not note.exists():
            shutil.rmtree(store.parent, ignore_errors=True)
            store.parent.mkdir(parents=True)
        before, peak = done["seconds"], done["peak"]
        if self._about(program)["needs_minilm"]:
            self._encode(texts)
        with self._started(program, store) as product:
            left = 1
            while left:
                left = product.ask("build", folder=str(texts.path))
                noted = {"seconds": before + product.age(), "left": left, "peak": max(peak, product.memory.bytes)}
                if left:
                    self.told(f"{program.name}: {left:,} documents are left")
                    replace_file(note, json.dumps(noted).encode())
            first_for(product, PLANTED[0].question)
            seconds = before + product.age()
            peak = max(peak, product.memory.bytes)
        note.unlink(missing_ok=True)
        size = sum(512 * path.stat().st_blocks for path in store.parent.rglob("*") if path.is_file())
        return {"first_seconds": seconds, "building_bytes": peak, "disk_bytes": size}

    def _times(self, program: ProductProgram, store: Path) -> Figures:
        """Return milliseconds of searches with and without a filter, and the memory of the process that searches."""
        plain = [{"do": "search", "text": text, "k": K} for text in self.large.questions]
        filtered = [one | {"do": "search_in", "part": f"part{at % PARTS}"} for at, one in enumerate(plain)]
        found: Figures = {}
        for name, asked in (("search", plain), ("filtered", filtered)):
            with self._started(program, store) as product:
                product.ask("open")
                found[name] = self._timed(product, asked, self._about(program)["needs_minilm"])
            found["searching_bytes"] = max(product.memory.bytes, found.get("searching_bytes", 0))
        return found

    def _timed(self, product: ProductProcess, asked: Sequence[Mapping[str, Any]], needs_minilm: bool) -> Figures:
        """Return milliseconds of single searches, to which the time is added that MiniLM took for the question.

        The first questions are not counted. No question is asked twice: a product may remember those that it has read.
        A slow product is asked fewer.
        """
        costs, took, found = self.costs, list[float](), list[int]()
        until = time.perf_counter() + SECONDS
        for at, one in enumerate(asked):
            if at >= FEWEST and time.perf_counter() > until:
                break
            seconds, answer = product.timed(**one)
            took.append(seconds + (costs.query_seconds(one["text"]) if needs_minilm else 0.0))
            found.append(len(answer))
        return _spread(took[len(took) // 4 :]) | {"found": round(fmean(found), 2), "asked": len(took)}

    def _judged(self, program: ProductProgram, name: str) -> Figures:
        """Return nDCG@10 of a judged collection, and of each of its queries in the order of the judgements."""
        texts, collection = judged_folder(self.data, self._sized / "folders", name)
        store = self._stores(program) / name / "store"
        self._built(program, texts, store)
        ids = dict(zip((doc["id"] for doc in texts.docs), collection.doc_ids, strict=True))
        run = {}
        with self._started(program, store) as product:
            product.ask("open")
            for query in collection.queries:
                answer = product.ask("search", text=query.text, k=K)
                run[query.id] = {ids[id]: 1 / rank for rank, id in enumerate(answer, 1)}
        shutil.rmtree(store.parent)
        found = evaluate(run, collection.qrels, ["nDCG@10"])
        values = [round(one, 4) for one in found.per_query["nDCG@10"].values()]
        return {"ndcg@10": found.means["nDCG@10"], "ndcg@10_of_queries": values}

    def _killed(self, program: ProductProgram) -> Figures:
        """Return what kills did; each one is a step of its own."""
        base, added = self._kill_sizes
        texts, more = short_texts(self.large, self._sized / "folders" / "base", base, added)
        store, copy = (self._stores(program) / name / "store" for name in ("base", "copy"))
        is_built = store.parent.with_suffix(".built")
        if not is_built.exists():
            self._built(program, texts, store)
            is_built.touch()
        ids = [doc["id"] for doc in texts.docs]
        test = KillTest(partial(self._started, program), store, ids, more)
        seconds = self._step(program, "undisturbed", lambda: {"seconds": test.undisturbed(copy)})["seconds"]
        rounds = [
            self._step(program, f"kill-{at}", partial(test.killed, copy, after))
            for at, after in enumerate(moments(self.kills, seconds))
        ]
        return totals(rounds) | {"adding_seconds": seconds}


def _spread(took: Sequence[float]) -> Figures:
    every = [1e3 * one for one in took]
    return {"p50_ms": round(median(every), 3), "p95_ms": round(quantiles(every, n=20)[-1], 3)}


def _slug(program: ProductProgram) -> str:
    return "-".join(part for part in (program.folder, program.way) if part)
