"""The figures of docs/evidence.md: what each claim rests on, with its interval, command, date and machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean
from typing import Any

from journal import Line, lines
from recall_plot import recall_by_milliseconds
from train_pages import Scored, difference, newest

FIVE = ("scifact:test", "squad-dev:test", "fiqa-judged:test", "cranfield:test", "npl:test")
UNRELATED = FIVE[2:]  # no question of their kind was trained on
NORMAL = 1.96  # standard deviations within which 95 % lie
RARE = 3.0  # what happened in none of n cases happens in at most 3 / n of all, with a confidence of 95 %


@dataclass(frozen=True)
class Evidence:
    """What a claim rests on."""

    figure: str
    interval: str
    command: str
    results: str  # the name of the file in results/
    lines: Sequence[Line]

    def shown(self) -> str:
        """Return the figure, and below it where it comes from."""
        dates = sorted({line["date"][:10] for line in self.lines})
        span = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        commits = ", ".join(dict.fromkeys(line["commit"] for line in self.lines))
        where = f"{span}, {machine(self.lines[-1])}, `benchmarks/results/{self.results}.jsonl`, commit {commits}"
        return f"**{self.figure}** ({self.interval})\n\n`{self.command}`  \n{where}"


def evidence_tables() -> dict[str, str]:
    """Return the figures of all claims by name."""
    return {name: found.shown() for name, found in evidence().items()}


def evidence_plots() -> dict[str, bytes]:
    """Return recall against time by its file name."""
    beside = {
        "words, 1,000,000 documents": lines("word_contenders")[-1]["figures"],
        "words and vectors, 300,000 documents": _joined(lines("hybrid_contenders")[-1]["figures"]),
    }
    return {"recall.svg": recall_by_milliseconds(beside)}


def evidence() -> dict[str, Evidence]:
    """Return what each claim rests on."""
    return {
        "exact": exact(),
        "slices": slices(),
        "joint": joint(),
        "bm25": ahead_of("bm25", FIVE),
        "minilm": ahead_of("BM25 + MiniLM", UNRELATED),
        "passages": passages(),
        "quick": quick(),
        "words": words(),
        "hybrid": hybrid(),
        "size": by_size(),
        "gpu": on_gpu(),
        "kills": kills(),
    }


def newest_quality() -> Line:
    """Return the last line that has all five collections."""
    return [line for line in lines("quality") if set(FIVE) <= line["figures"]["ndcg@10"].keys()][-1]


def machine(line: Line) -> str:
    """Return where a line was measured."""
    found = line["hardware"]
    if isinstance(found, str):
        return found
    if gpu := line.get("configuration", {}).get("gpu"):
        return str(gpu)
    return f"{found['cpu']}, {found['cores']} {'core' if found['cores'] == 1 else 'cores'}"


# --- claims


def exact() -> Evidence:
    """Return how many of the best documents by the definition are found without pruning."""
    line = lines("word_contenders")[-1]
    asked, recall = _timed_queries(line), _exact_by_words(line)["recall@100"]
    none = f"no miss in {asked} questions: at most {_percent(RARE / asked)} of questions have one"
    told = none if recall == 1 else f"at most ± {_half(recall, asked):.4f}, {asked} questions"
    return Evidence(f"{recall:.4f} of the 100 best", told, WORDS, "word_contenders", [line])


def slices() -> Evidence:
    """Return what 768 slices cost uniCOIL."""
    runs = newest()
    found = difference(runs, Scored("unicoil", "lexical"), Scored("unicoil", "lexical-768"))
    whole = fmean(line["measures"]["lexical"]["RR@10"] for line in runs["unicoil"].values())
    some = list(runs["unicoil"].values())
    told = f"{found.mean:.4f} ± {found.half:.4f}, {_asked(found.seeds, some)}"
    return Evidence(f"{_percent(found.mean / whole)} of RR@10 is lost", told, TRAINING, "train_acl", some)


def joint() -> Evidence:
    """Return how far the joint SPLADE is ahead of a SPLADE trained alone, with 768 slices each."""
    runs = newest()
    found = difference(runs, Scored("splade-dense", "joint-768"), Scored("splade", "lexical-768"))
    some = [*runs["splade-dense"].values(), *runs["splade"].values()]
    told = f"± {found.half:.3f}, {_asked(found.seeds, some)}"
    return Evidence(f"{found.mean:+.3f} RR@10", told, TRAINING, "train_acl", some)


def ahead_of(way: str, collections: Sequence[str]) -> Evidence:
    """Return how far the embedded model is ahead of another way to search, in the mean of collections."""
    line = newest_quality()
    some = [line["figures"]["ndcg@10"][name][way] for name in collections]
    queries = sum(line["figures"]["queries"][name] for name in collections)
    half = sqrt(sum(one["half"] ** 2 for one in some)) / len(some)
    named = " ".join(collections)
    return Evidence(
        f"{fmean(one['ahead'] for one in some):+.3f} nDCG@10",
        f"± {half:.3f}; {len(some)} collections, {queries:,} queries",
        f"python benchmarks/quality.py DATA {named} --encoders {ENCODERS}", "quality", [line],
    )  # fmt: skip


def passages() -> Evidence:
    """Return what passages gain on whole articles."""
    line = next(one for one in reversed(lines("long_documents")) if one["configuration"]["joined"])
    ((name, found),) = line["figures"]["ndcg@10"].items()
    gain, half = found["gain, hybrid"]
    told = f"± {half:.3f}; {found['documents']} articles, {found['queries']:,} questions"
    return Evidence(
        f"{gain:+.3f} nDCG@10", told, f"python benchmarks/long_documents.py DATA {name} --join squad-dev",
        "long_documents", [line],
    )  # fmt: skip


def quick() -> Evidence:
    """Return when the first documents of a large collection can be searched, and how many are indexed in a second."""
    some = [line for line in lines("quick_rate") if line["configuration"]["documents"] > 900_000]
    found = [line["figures"]["quick"] for line in some]
    rates = [one["documents_a_second"] for one in found]
    size, copies = (some[-1]["configuration"][name] for name in ("documents", "copies"))
    return Evidence(
        f"first search after {found[-1]['first_search_s']:.1f} s, {rates[-1]:,.0f} documents a second",
        f"{_range(rates, ',.0f')}; {size // copies:,} abstracts {copies} times, the quick level",
        f"python benchmarks/quick_rate.py CORPUS --copies {copies} --repeats 1", "quick_rate", some,
    )  # fmt: skip


def words() -> Evidence:
    """Return the time of exact search by words beside the fastest other engine."""
    line = lines("word_contenders")[-1]
    ours = [one for one in line["figures"]["denslice, words"]["settings"] if one["k"] == 10]
    times, recall = [one["p50_ms"] for one in ours], min(one["recall@10"] for one in ours)
    others = {
        name: (one["p50_ms"], one["recall@10"])
        for name, found in line["figures"].items() if not name.startswith("denslice")
        for one in found["settings"] if one["k"] == 10
    }  # fmt: skip
    told = ", ".join(f"{name} {ms:.2f} ms at {recall:.3f}" for name, (ms, recall) in sorted(others.items()))
    told = f"{len(times)} medians of {_timed_queries(line)} questions in one run; recall@10 {recall:.3f}; {told}"
    return Evidence(f"{min(times):.2f} to {max(times):.2f} ms", told, WORDS, "word_contenders", [line])


def hybrid() -> Evidence:
    """Return time and recall of hybrid search of real passages by default."""
    some = [line for line in lines("large_collections") if line["configuration"].get("source") in (None, "texts")]
    return _pruned(some, "passages", "QUERIES.jsonl …")


def by_size() -> Evidence:
    """Return the same for the largest collection."""
    some = [line for line in lines("large_collections") if line["configuration"]["documents"] == 8_841_823]
    return _pruned(some, "documents", "--topics")


def on_gpu() -> Evidence:
    """Return the time of exact lexical search on a GPU, to numbers of documents and to texts."""
    runs = lines("gpu")
    each = [_gpu(run, "exact, 64 weights")["p50_ms"] for run in runs]
    texts = _gpu(runs[-1], "exact, 64 weights, to 10 texts")
    k = runs[-1]["configuration"]["k"]
    return Evidence(
        f"{each[-1]:.2f} ms to the numbers of {k:,} documents, {texts['p50_ms']:.2f} ms to the texts of ten",
        f"medians of {texts['times']} searches; numbers: {min(each):.2f} to {max(each):.2f} ms in {len(runs)} runs; "
        "texts: one run",
        "denslice bench gpu", "gpu", runs,
    )  # fmt: skip


def kills() -> Evidence:
    """Return how often something was lost when a writer was killed."""
    line = lines("kills")[-1]
    count = line["figures"]["kills"]
    told = f"in {count:,} kills at random moments: at most {_percent(RARE / count)} of kills lose something"
    return Evidence("nothing is lost", told, f"python benchmarks/kills.py --kills {count}", "kills", [line])


# --- parts

ENCODERS = "bm25 'BM25 + MiniLM=MODEL' mini"
ENGINES = "'denslice, words' SINDI Seismic impact-index 'impact-index, BMP'"
WORDS = f"python benchmarks/word_contenders.py WORK --python PYTHON --documents 1000000 --names {ENGINES} --append"
TRAINING = "python benchmarks/train_acl.py DATA BACKBONE WORK"


def _pruned(some: Sequence[Line], what: str, asked_from: str) -> Evidence:
    found = [_row(line) for line in some]
    times, asked = [one["p50_ms"] for one in found], some[-1]["configuration"]["queries"]
    recall, size = found[-1]["recall@10"], some[-1]["configuration"]["documents"]
    spread = f"{min(times):.2f} to {max(times):.2f} ms in {len(times)} runs of changing code"
    return Evidence(
        f"{times[-1]:.2f} ms for {size:,} {what}, with {recall:.4f} of the ten best found",
        f"{spread}; recall at most ± {_half(recall, asked):.3f}, {asked} questions",
        f"python benchmarks/large_collections.py INDEX {asked_from}", "large_collections", some,
    )  # fmt: skip


def _row(line: Line) -> Mapping[str, Any]:
    """Return hybrid search of ten by default."""
    return next(one for one in line["figures"]["hybrid"] if (one["k"], one["pruning"]) == (10, 0.3))


def _exact_by_words(line: Line) -> Mapping[str, Any]:
    settings = line["figures"]["denslice, words"]["settings"]
    return next(one for one in settings if one["k"] == 100 and one["setting"] == {"pruning": 0.0})


def _timed_queries(line: Line) -> int:
    return int(line["configuration"]["queries"]) // 2  # the others chose settings


def _gpu(run: Line, name: str) -> Mapping[str, Any]:
    return next(one for one in run["figures"] if (one["name"], one["gates"]) == (name, "uniform"))


def _half(mean: float, cases: int) -> float:
    """Return half of the 95 % interval of a mean of numbers from 0 to 1, which vary at most as much as 0s and 1s do."""
    return NORMAL * sqrt(mean * (1 - mean) / cases)


def _range(values: Sequence[float], form: str) -> str:
    if len(values) == 1:
        return "one run"
    return f"{min(values):{form}} to {max(values):{form}} in {len(values)} runs"


def _joined(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return the engines that search by words and vectors."""
    return {name: found for name, found in figures.items() if name in ("denslice", "bm25s + Faiss HNSW")}


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _asked(seeds: int, some: Sequence[Line]) -> str:
    return f"{'one seed' if seeds == 1 else f'{seeds} seeds'}, {some[0]['queries']:,} queries"
