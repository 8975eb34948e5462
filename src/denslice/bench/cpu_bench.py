"""The benchmark on the CPU: every contender is built, checked and timed, one after the other, in one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from denslice.bench.bench_data import BenchTexts, Collection, best_documents
from denslice.bench.builds import apart, built
from denslice.bench.contender import Contender
from denslice.bench.peers.bm25s_peer import Bm25s
from denslice.bench.peers.csr_peer import Csr
from denslice.bench.peers.denslice_peer import Denslice
from denslice.bench.peers.faiss_peer import FLAT, HNSW
from denslice.bench.peers.paper_peer import Paper
from denslice.bench.peers.seismic_peer import Seismic
from denslice.bench.timing import throughput, timed
from denslice.errors import InputError

LARGER = {"n_postings": 3000, "centroid_fraction": 0.2, "summary_energy": 0.5, "max_fraction": 6.0}
PRUNINGS = tuple({"pruning": pruning} for pruning in (0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5))
OF_VECTORS: tuple[Contender, ...] = (Seismic(), Seismic("Seismic, larger", LARGER), Csr(), FLAT, HNSW, Paper())
OF_TEXTS: tuple[Contender, ...] = (Bm25s(),)
Told = Callable[[str], None]


def contenders(collection: Collection, names: Sequence[str] = (), slices: int = 768) -> list[Contender]:
    """Return the contenders that can search the collection, or those whose names begin with one of `names`."""
    kind = {"slicing": "learned", "slices": slices}
    able: list[Contender] = [Denslice(parameters=kind)]
    if isinstance(collection, BenchTexts):
        able += OF_TEXTS
    else:
        able += [Denslice("denslice, pruning", kind, approximate=PRUNINGS), *OF_VECTORS]
    for name in names:
        if not any(one.name.startswith(name) for one in able):
            raise InputError(f"no contender {name!r}; there are {'; '.join(one.name for one in able)}")
    return [one for one in able if not names or any(one.name.startswith(name) for name in names)]


def measure(
    collection: Collection, chosen: Sequence[Contender], work: Path, repeats: int, told: Told
) -> dict[str, Any]:
    """Return the figures of every contender that is installed."""
    results = []
    for contender in chosen:
        if find_spec(contender.module) is None:
            told(f"{contender.name}: skipped, {contender.module} is not installed: pip install 'denslice[bench]'")
            continue
        told(f"{contender.name}: building")
        results.append(_measured(contender, collection, work, repeats, told))
    docs, queries = collection.docs, collection.queries
    shape = {"documents": docs.shape[0], "queries": queries.shape[0]}
    weights = {"weights_a_document": round(docs.nnz / docs.shape[0], 1)}
    return shape | weights | {"weights_a_query": round(queries.nnz / queries.shape[0], 1), "contenders": results}


def _measured(contender: Contender, collection: Collection, work: Path, repeats: int, told: Told) -> dict[str, Any]:
    folder, build = built(contender, collection, work)
    docs = min(collection.docs.shape[0], contender.most_docs or collection.docs.shape[0])
    best = best_documents(collection, work, docs)
    told(f"{contender.name}: {build['build_s']:,.0f} s to build; timing")
    fresh = replace(collection)  # without the vectors that this process has loaded
    one = apart(timed, contender, fresh, folder, best, repeats, threads=1)
    reported = [(point["k"], point["setting"]) for point in one["settings"] if point.get("reported")]
    every = apart(throughput, contender, fresh, folder, reported, repeats)
    kind = {"name": contender.name, "documents": docs, "is_linear": contender.is_linear}
    return kind | {"build": build} | one | {"all_cores": every}
