"""Refreshes the tables and plots in docs/ from the lines in benchmarks/results. The prose around them stays.

    python benchmarks/pages.py

docs/reproduction/ is made by `denslice reproduce`, whose JSON files are read here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import adds_while_deepening
import serve_load
import serve_workers
import three_node_cluster
from denslice.bench.bench_table import MISSED, is_good, reported, table
from denslice.capacity.plan import CapacityPlan, Need, plan, rates
from denslice.reproduce.table_page import markdown, refresh
from evidence_pages import FIVE, UNRELATED, evidence_plots, evidence_tables, newest_quality
from journal import RESULTS, ROOT, Line, cited, lines
from large_pages import large_plots, large_tables
from product_pages import product_plots, product_tables
from recall_plot import SECONDS, quality_against_seconds, recall_against_time, time_against_size
from reproduction_pages import reproduction_tables
from slicing_tables import slicing_plots, slicing_tables
from train_pages import train_tables, training_speeds
from word_pages import word_tables

DOCS = ROOT / "docs"
KINDS = ("whole", "passages")  # of an index of long documents


def main() -> None:
    """Refresh every page, and draw the plots."""
    for page, tables in page_tables().items():
        refresh(DOCS / f"{page}.md", tables)
    for name, drawn in plots().items():
        (DOCS / name).write_bytes(drawn)


def page_tables() -> dict[str, dict[str, str]]:
    """Return the tables of each page by name."""
    return {
        "agents": {"agent_reading": agent_reading()},
        "benchmarks": cpu(),
        "evidence": evidence_tables(),
        "files": {"sync": sync_rate(), "markdown": markdown_rates(), "rates": reading_rates()},
        "gpu": gpu(),
        "lab-notes": {"tries": tries(), "phrases": phrases(), "looks": looks()},
        "large-collections": large_tables(),
        "living-index": {
            "commits": commits(),
            "levels": levels(),
            "quick_level": quick_level(),
            "quick_rates": quick_rates(),
            "adds_while_deepening": adds(),
            "quality_by_seconds": by_seconds(),
        },
        "mini": {"quality": quality(), "speed": mini_speed()},
        "passages": {"quality": long_quality(), "needles": needles(), "speed": passage_speed()},
        "products": product_tables(),
        "reproduction": reproduction_tables(),
        "scaling": {"cluster": cluster(), "plans": plans(), "plan": steps(plan(_need(1e9))), "rates": plan_rates()},
        "serving": {"load": load(), "workers": workers()},
        "slicing": slicing_tables(),
        "training": train_tables() | {"speed": speed()},
        "words-measured": word_tables(),
    }


def plots() -> dict[str, bytes]:
    """Return the plots by file name."""
    shown, sizes = _shown_cpu()
    drawn = {f"benchmarks/{name}.svg": recall_against_time(shown[name]) for name in ("million", "acl")}
    drawn["benchmarks/size.svg"] = time_against_size(sizes)
    drawn["quality_by_seconds.svg"] = quality_against_seconds(lines("quality_by_seconds")[-1])
    return drawn | large_plots() | evidence_plots() | product_plots() | slicing_plots()


# --- agents.md


def agent_reading() -> str:
    """Return what agents read, from the newest run: a row for each budget and way."""
    line = lines("agent_reading")[-1]
    rows = []
    for budget in map(str, line["configuration"]["budgets"]):
        for way, found in line["figures"][budget].items():
            shares = [f"{100 * found[name]:.0f} %" for name in ("whole", "half")]
            means = [f"{found['tokens']:,.0f}", f"{found['word_pieces']:,.0f}", f"{found['calls']:.1f}"]
            rows.append([f"{int(budget):,}", way, *shares, *means])
    head = ["budget", "agent", "paragraph read", "half of it", "tokens read", "word pieces", "calls"]
    return f"{markdown(head, rows)}\n\n{cited('agent_reading', [line])}"


# --- passages.md


def long_quality() -> str:
    """Return nDCG@10 of whole documents and of passages, from the newest run of each collection."""
    newest = {(name, bool(line["configuration"]["joined"])): (line, found) for line in lines("long_documents")
              for name, found in line["figures"]["ndcg@10"].items()}  # fmt: skip
    rows = []
    for (name, joined), (_, found) in sorted(newest.items(), key=lambda one: not one[0][1]):
        gain, half = found["gain, hybrid"]
        counts = [f"{found['documents']:,}", f"{found['passages']['passages']:,}"]
        figures = [f"{found[kind][mode]:.3f}" for mode in ("lexical", "dense", "hybrid") for kind in KINDS]
        called = f"{name.partition(':')[0]}{', whole articles' if joined else ''}"
        rows.append([called, *counts, *figures, f"{gain:+.3f} ± {half:.3f}"])
    head = ["collection", "documents", "passages"]
    head += [f"{mode}, {kind}" for mode in ("lexical", "dense", "hybrid") for kind in ("whole", "cut")]
    return (
        f"{markdown([*head, 'gain, hybrid'], rows)}\n\n{cited('long_documents', [line for line, _ in newest.values()])}"
    )


def needles() -> str:
    """Return how many needles are found, from the newest run."""
    line = [one for one in lines("needles") if one["configuration"].get("notes", 5) == 5][-1]
    figures, total = line["figures"], line["configuration"]["needles"]
    names = [name for name in next(iter(figures.values())) if name.startswith(("word", "sentence"))]
    rows = [[name, *(f"{one[name]} of {total}" for one in figures.values())] for name in names]
    head = ["needle", *(f"notes of {int(words):,} words" for words in figures)]
    return f"{markdown(head, rows)}\n\n{cited('needles', [line])}"


def passage_speed() -> str:
    """Return the times of documents of several passages beside plain ones, from the newest run."""
    line = lines("passage_speed")[-1]
    asked, figures = line["configuration"], line["figures"]
    count = asked["documents"] * asked["passages"]
    called = {"plain": f"{count:,} documents", "passages": f"{asked['documents']:,} documents of {asked['passages']}"}
    rows = [
        [told, f"{figures[kind]['bytes'] / count:,.0f}", f"{figures[kind]['documents_ms']:.1f} ms",
         f"{figures[kind]['passages_ms']:.1f} ms"]
        for kind, told in called.items()
    ]  # fmt: skip
    head = ["index", "bytes a passage", "search for documents", "search for passages"]
    return f"{markdown(head, rows)}\n\n{cited('passage_speed', [line])}"


# --- files.md


def sync_rate() -> str:
    """Return the time of a sync beside that of the first indexing, from the newest run."""
    line = lines("sync_rate")[-1]
    asked, figures = line["configuration"], line["figures"]
    first = figures["first_seconds"]
    told = {
        f"the first time, {asked['files']:,} files": (figures["first_passages"], first),
        "1 % changed, 0.5 % deleted, 0.5 % renamed": (figures["sync_encoded"], figures["sync_seconds"]),
        "nothing changed": (0, figures["idle_seconds"]),
    }
    rows = [[name, f"{count:,}", f"{took:.1f} s", f"{took / first:.1%}"] for name, (count, took) in told.items()]
    head = ["sync", "passages encoded", "time", "of the first"]
    return f"{markdown(head, rows)}\n\n{cited('sync_rate', [line])}"


def markdown_rates() -> str:
    """Return how fast Markdown is read and cut, by the size of the files, from the newest run."""
    line = lines("sync_rate")[-1]
    rows = [
        [f"{one['kilobytes']:.1f} kB", f"{one['files']:,}", f"{one['megabytes_a_second']:.1f}"]
        for one in line["figures"]["reading"]
    ]
    return f"{markdown(['size of a file', 'files', 'MB a second'], rows)}\n\n{cited('sync_rate', [line])}"


def reading_rates() -> str:
    """Return how fast PDF and HTML files are read beside the readers of others, from the newest runs."""
    pdf, html = lines("pdf_rate")[-1], lines("html_rate")[-1]
    rows = []
    for kind, line, shared in (("PDF", pdf, ""), ("HTML", html, "found")):
        for name, one in line["figures"]["readers"].items():
            found = f"{one['found']:.1%}, {one['found_around']:.1%}" if shared else ""
            rates = [f"{one['pages_a_second']:,.0f}", f"{one['megabytes_a_second']:.1f}"]
            rows.append([kind, name, f"{line['figures']['pages']:,}", *rates, found])
    head = ["format", "reader", "pages", "pages a second", "MB a second", "main text, text around it"]
    return f"{markdown(head, rows)}\n\n{cited('pdf_rate', [pdf])} {cited('html_rate', [html])}"


# --- benchmarks.md

MILLION, ACL, BM25 = "splade-like-1000000", "acl-splade", "acl-title-abstract, BM25"


def cpu() -> dict[str, str]:
    """Return the tables of the newest runs of `denslice bench cpu`."""
    shown, sizes = _shown_cpu()
    made = {name: f"{table(line)}\n\n{cited('bench_cpu', [line])}" for name, line in shown.items()}
    newest = cpu_runs()
    return made | {"slices": _by_slices([newest[ACL, 768], newest[ACL, 4096]]), "sizes": _by_size(sizes)}


def _shown_cpu() -> tuple[dict[str, Line], list[Line]]:
    """Return the runs that have a table of their own by its name, and those of collections alike by size."""
    newest = cpu_runs()
    shown = {"million": newest[MILLION, 768], "acl": newest[ACL, 4096], "bm25": newest[BM25, 768]}
    sizes = [line for (collection, _), line in newest.items() if collection.startswith("splade-like")]
    return shown, sorted(sizes, key=lambda line: int(line["figures"]["documents"]))


def cpu_runs() -> dict[tuple[str, int], Line]:
    """Return the newest run of `denslice bench cpu` by collection and number of slices."""
    return {(line["collection"], line["slices"]): line for line in _cpu_lines()}


def _cpu_lines() -> list[Line]:
    """Return the lines with today's names: older ones have `caution`, which was 1 - pruning."""
    text = (RESULTS / "bench_cpu.jsonl").read_text(encoding="utf-8")
    for old, new in (("denslice, caution", "denslice, pruning"), ("paper's formulation", "paper's method")):
        text = text.replace(old, new)
    return [json.loads(line, object_hook=_with_pruning) for line in text.splitlines()]


def _with_pruning(fields: dict[str, Any]) -> dict[str, Any]:
    return {"pruning": round(1 - fields["caution"], 2)} if "caution" in fields else fields


def _by_slices(some: Sequence[Line]) -> str:
    """Return recall and size of denslice by number of slices, on one collection."""
    rows = []
    for line in some:
        ours = _denslice(line)
        recalls = {k: point[f"recall@{k}"] for point in reported(ours) for k in [point["k"]]}
        rows.append(
            [
                f"{line['slices']:,}",
                *(f"{found:.3f}" for found in recalls.values()),
                f"{ours['build']['bytes'] / ours['documents']:,.0f}",
            ]
        )
    head = ["slices", "recall@10", "recall@100", "recall@1000", "bytes/doc on disk"]
    return f"{markdown(head, rows)}\n\n{cited('bench_cpu', some)}"


def _by_size(some: Sequence[Line]) -> str:
    """Return p50 of denslice, exact and with pruning, and the time to build, by number of documents."""
    rows = []
    for line in some:
        ours = _denslice(line)
        exact, pruned = (reported(_denslice(line, name)) for name in ("denslice", "denslice, pruning"))
        times = [f"{point['p50_ms']:.2f}" if is_good(point) else MISSED for point in (*exact, *pruned)]
        build = ours["build"]
        size = f"{build['bytes'] / ours['documents']:,.0f}"
        rows.append([f"{ours['documents']:,}", *times, f"{build['build_s']:.1f}", size])
    ways = [f"{way}, k = {k}" for way in ("exact", "pruning") for k in (10, 100, 1000)]
    return f"{markdown(['documents', *ways, 'build s', 'bytes/doc on disk'], rows)}\n\n{cited('bench_cpu', some)}"


def _denslice(line: Line, name: str = "denslice") -> Line:
    return next(one for one in line["figures"]["contenders"] if one["name"] == name)


# --- gpu.md

STAGES = "two stages, 64 weights, then 10,000 rescored"
PEERS = (  # PyTorch's searches, and denslice's to compare them with
    ("PyTorch, as the paper: 64 weights", "exact, 64 weights"),
    ("PyTorch, as the paper: every slice", "exact, every slice"),
    (f"PyTorch, as the paper: {STAGES}", STAGES),
    (f"PyTorch, as the paper: {STAGES}", "exact, every slice"),
    ("PyTorch: dense scan", "dense exact"),
)
NOT_SHOWN = ("PyTorch", "postings alone")  # the first have a table of their own, the second are for research


def gpu() -> dict[str, str]:
    """Return the newest run of `denslice bench gpu`, the range over all runs, and the comparison with PyTorch."""
    runs = lines("gpu")
    rows, newest = [], runs[-1]
    for one in newest["figures"]:
        if not one["name"].startswith(NOT_SHOWN):
            every = [other["p50_ms"] for run in runs for other in run["figures"] if _same_search(one, other)]
            place = [one["gates"], str(one["slices"]), one["name"]]
            spread = f"{min(every):.3f} to {max(every):.3f}" if len(every) > 1 else ""
            times = [f"{one['p50_ms']:.3f}", f"{one['p95_ms']:.3f}", spread]
            rows.append([*place, *times, f"{one['queries_a_second']:,}" if "queries_a_second" in one else ""])
    head = ["gates", "slices", "search", "p50 ms", "p95 ms", f"p50 of {len(runs)} runs", "queries/s"]
    asked, earlier = newest["configuration"], ", ".join(run["commit"] for run in runs[:-1])
    where = f"{asked['gpu']}, {asked['docs']:,} documents, k = {asked['k']:,}; earlier runs: commit {earlier}."
    peers = markdown(["PyTorch", "p50 ms", "denslice", "times as fast"], _peers(runs))
    return {"runs": f"{markdown(head, rows)}\n\n{cited('gpu', [newest])} {where}", "peers": peers}


def _same_search(one: Line, other: Line) -> bool:
    return all(one[key] == other[key] for key in ("name", "gates", "slices"))


def _peers(runs: Sequence[Line]) -> list[list[str]]:
    rows = []
    for peer, ours in PEERS:
        ratios = [_p50(run, peer) / _p50(run, ours) for run in runs]
        times = f"{ratios[-1]:.1f} ({min(ratios):.1f} to {max(ratios):.1f})"
        rows.append([peer.partition(": ")[2], f"{_p50(runs[-1], peer):.3f}", ours, times])
    return rows


def _p50(run: Line, name: str) -> float:
    found: float = next(o["p50_ms"] for o in run["figures"] if o["name"] == name and o["gates"] == "uniform")
    return found


# --- mini.md and lab-notes.md

WAYS = {  # searches of the table, and what they are called there
    "bm25": "BM25",
    "BM25 + MiniLM, dense": "MiniLM",
    "BM25 + granite, dense": "granite",
    "BM25 + MiniLM": "BM25 + MiniLM",
    "BM25 + granite": "BM25 + granite",
    "first edition": "first edition",
    "mini, lexical": "mini, lexical",
    "mini, dense": "mini, dense",
    "mini": "mini",
}
LOOKS = ("A", "B", "A, phrases 0.4, λ = 50", "halfway, phrases 0.3, b = 0.4", "halfway, phrases 0.3, b = 0.3")


def quality() -> str:
    """Return nDCG@10 of the embedded model and of its baselines, and by how much it is ahead of each."""
    line = newest_quality()
    found, queries = line["figures"]["ndcg@10"], line["figures"]["queries"]
    rows = []
    for name in FIVE:
        rows.append([_collection(name), f"{queries[name]:,}", *(f"{found[name][way]['mean']:.3f}" for way in WAYS)])
    for told, some in (("mean of the five", FIVE), ("mean of the three unrelated", UNRELATED)):
        rows.append([told, "", *(f"{fmean(found[name][way]['mean'] for name in some):.3f}" for way in WAYS)])
        rows.append(["mini is ahead by", "", *(_ahead([found[name][way] for name in some]) for way in WAYS)])
    return f"{markdown(['collection', 'queries', *WAYS.values()], rows)}\n\n{cited('quality', [line])}"


def _ahead(some: Sequence[Mapping[str, float]]) -> str:
    """Return the mean difference over collections, and half its 95 % interval; collections are independent."""
    half = sum(one["half"] ** 2 for one in some) ** 0.5 / len(some)
    return f"{fmean(one['ahead'] for one in some):+.3f} ± {half:.3f}" if half else ""


def _collection(name: str) -> str:
    return name.partition(":")[0] + ("" if name in UNRELATED else ", in domain")


def mini_speed() -> str:
    """Return passages a second and milliseconds a query of the embedded model."""
    line = lines("encode_mini")[-1]
    figures, passages = line["figures"], line["figures"]["passages_a_second"]
    rows = [
        ["mini, passages a second", f"{passages['mini']:.1f}"],
        ["all-MiniLM-L6-v2 in sentence-transformers, float32", f"{passages['sentence_transformers']:.1f}"],
        ["mini, milliseconds a query, p50 (p95)", f"{figures['query_ms']['p50']} ({figures['query_ms']['p95']})"],
    ]
    return f"{markdown(['two CPU cores', ''], rows)}\n\n{cited('encode_mini', [line])}"


def tries() -> str:
    """Return what training runs gave on dev splits, by how far their weights are taken."""
    head = [f"{part}, {kind}" for part in ("lexical", "dense", "hybrid") for kind in ("trained", "unseen")]
    rows = []
    for line in lines("mini_tries"):
        parts = [f"{line[kind][way]:.4f}" for way in ("lexical", "dense", "40") for kind in ("seen", "unseen")]
        shares = line["shares"] if "shares" in line else {line["config"]: line["share"]}
        named = [run if share == 1 else f"{share:g} {run}" for run, share in shares.items() if share]
        rows.append([" + ".join(named) or "untrained", *parts])
    return f"{markdown(['weights', *head], rows)}\n\nFrom `benchmarks/results/mini_tries.jsonl`."


def phrases() -> str:
    """Return nDCG@10 on dev splits at λ = 40, by body and weight of phrases."""
    found: dict[str, dict[str, float]] = {}
    for line in lines("mini_phrases"):
        mean = fmean(one["40"] for one in line["ndcg@10"].values())
        found.setdefault(line["weights"], {})[f"{line['phrases']:g}"] = mean
    rows = [[weights, *(f"{mean:.4f}" for mean in means.values())] for weights, means in found.items()]
    head = ["body", *(f"phrases {weight}" for weight in next(iter(found.values())))]
    return f"{markdown(head, rows)}\n\nFrom `benchmarks/results/mini_phrases.jsonl`."


def looks() -> str:
    """Return mean nDCG@10 on the test sets of the models that were measured there, oldest first."""
    some = [line for line in lines("mini_quality") if set(FIVE) <= line["figures"]["ndcg@10"].keys()]
    rows = []
    for label, line in zip(LOOKS, some, strict=True):
        found = line["figures"]["ndcg@10"]
        means = [f"{fmean(found[name]['768']['hybrid'] for name in names):.4f}" for names in (FIVE, UNRELATED)]
        rows.append([label, *means])
    head = ["model", "mean of the five", "mean of the three unrelated"]
    return f"{markdown(head, rows)}\n\n{cited('mini_quality', some)}"


# --- living-index.md, scaling.md and serving.md

SIZES = {"10 million": 10e6, "1 billion": 1e9, "100 billion": 100e9}


def commits() -> str:
    """Return what commits of one document cost, by index format."""
    some = lines("commits")
    rows = []
    for line in some:
        asked, ms = line.get("configuration", line), line.get("figures", line)["ms"]  # older lines have no sections
        times = [ms["commit"]["p50"], ms["commit"]["p99"], ms["first search"]["p50"], ms["warm search"]["p50"]]
        name = f"format {line.get('index_format', 2)}, {asked['commits']:,} commits"
        rows.append([name, *(f"{time:.2f}" for time in times)])
    head = ["ms", "commit, p50", "commit, p99", "first search after it, p50", "warm search, p50"]
    return f"{markdown(head, rows)}\n\n{cited('commits', some)}"


def levels() -> str:
    """Return nDCG@10 by the share of an index that is deep, and with quick queries, beside BM25."""
    line = [one for one in lines("levels") if len(one["configuration"]["shares"]) > 1][-1]
    found = line["figures"]["ndcg@10"]
    ways = ["bm25", *(f"{share:.0%}" for share in line["configuration"]["shares"])]
    ways += ["0%, quick queries", "100%, quick queries"]
    rows = [[name, *(f"{values[way]:.3f}" for way in ways)] for name, values in found.items()]
    rows.append(["mean", *(f"{fmean(values[way] for values in found.values()):.3f}" for way in ways)])
    told = [way.replace("%", " % deep").replace("bm25", "BM25") for way in ways]
    return f"{markdown(['nDCG@10', *told], rows)}\n\n{cited('levels', [line])}"


def quick_level() -> str:
    """Return nDCG@10 of the quick level on test sets, beside BM25."""
    line = [one for one in lines("levels") if one["configuration"]["shares"] == [0.0]][-1]
    found = line["figures"]["ndcg@10"]
    rows = [[name, *(f"{values[way]:.3f}" for way in ("bm25", "0%"))] for name, values in found.items()]
    means = [fmean(values[way] for values in found.values()) for way in ("bm25", "0%")]
    rows.append(["mean", *(f"{mean:.3f}" for mean in means)])
    return f"{markdown(['nDCG@10', 'BM25', 'quick level'], rows)}\n\n{cited('levels', [line])}"


def quick_rates() -> str:
    """Return the rates of the quick pass and of BM25, once for each size of a collection."""
    latest = {line["configuration"]["documents"]: line for line in lines("quick_rate")}
    rows = []
    for documents, line in sorted(latest.items()):
        copies = line["configuration"]["copies"]
        size = f"{documents:,}" if copies == 1 else f"{documents:,} ({copies} times {documents // copies:,})"
        for way, told in (("quick", "`--quick`"), ("bm25", "`--encoder bm25`")):
            one = line["figures"][way]
            figures = [f"{one['documents_a_second']:,.0f}", f"{one['seconds']:.1f}", f"{one['first_search_s']:.1f}"]
            rows.append([size, told, *figures, f"{one['memory_gb']:.1f}"])
    head = ["documents", "`denslice index`", "documents a second", "seconds", "first search after", "memory, GB"]
    return f"{markdown(head, rows)}\n\n{cited('quick_rate', latest.values())}"


def adds() -> str:
    """Return the times of adds and searches while an index is deepened, beside those of an idle one."""
    line = lines("adds_while_deepening")[-1]
    shown = adds_while_deepening.table(line["figures"], line["configuration"]["share"])
    return f"{shown}\n\n{cited('adds_while_deepening', [line])}"


def by_seconds() -> str:
    """Return nDCG@10 by seconds since the start."""
    line = lines("quality_by_seconds")[-1]
    found = {one["name"]: one["points"] for one in line["figures"]["contenders"]}
    ends = [points[-1]["seconds"] for points in found.values()]
    times = [time for time in SECONDS if min(ends) < time < max(ends)]
    rows = []
    for name, points in found.items():
        values = [_value_at(points, time) for time in [*times, points[-1]["seconds"]]]
        rows.append([name, *values, *(f"{points[at]['seconds']:.1f} s" for at in (0, -1))])
    head = ["nDCG@10", *(f"after {time:g} s" for time in times), "complete", "first search", "complete after"]
    return f"{markdown(head, rows)}\n\n{cited('quality_by_seconds', [line])}"


def _value_at(points: Sequence[Mapping[str, float]], time: float) -> str:
    """Return the nDCG@10 that the last point up to a time has; a dash before the first."""
    before = [one["ndcg@10"] for one in points if one["seconds"] <= time]
    return f"{before[-1]:.3f}" if before else "–"


def cluster() -> str:
    """Return what three_node_cluster.py measured: a column for each collection."""
    some = lines("cluster")
    figures = []
    for line in some:
        asked = line["configuration"]
        name = f"{asked['texts']}, {asked['encoder']}" if asked["texts"] else "synthetic vectors"
        figures.append(line["figures"] | {"collection": name})
    return f"{three_node_cluster.table(figures)}\n\n{cited('cluster', some)}"


def plans() -> str:
    """Return the plans of three sizes side by side, with and without dense vectors."""
    head = ["", *(f"{name}, {kind}" for name in SIZES for kind in ("lexical", "with 256 dimensions"))]
    made = [plan(_need(docs, dense)) for docs in SIZES.values() for dense in (0, 256)]
    rows = [["disk", *(_value(one.steps, "disk") for one in made)]]
    for device, unit, fleet in (("CPU", "core", "machines"), ("GPU", "GPU", "GPUs")):
        for name in ("read by searches", f"{unit} time a query", fleet, "latency", "queries a second", "encoding"):
            rows.append([f"{device}: {name}", *(_value(getattr(one, device.lower()).steps, name) for one in made)])
    return markdown(head, rows)


def steps(made: CapacityPlan) -> str:
    """Return one plan with its arithmetic."""
    groups = (("", made.steps), ("CPUs: ", made.cpu.steps), ("GPUs: ", made.gpu.steps))
    rows = [[f"{group}{step.name}", step.value, step.arithmetic] for group, some in groups for step in some]
    return markdown(["", "", "arithmetic"], rows)


def plan_rates() -> str:
    """Return the rates of `denslice plan`, and where, when and with which index format they were measured."""
    rows = []
    for rate in rates().values():
        source = f"`{rate['source']}`, commit {rate['commit']}"
        rows.append([f"{rate['value']:g}", rate["unit"], source, rate["date"], str(rate["index_format"] or "")])
    return markdown(["", "", "from", "date", "index format"], rows)


def _need(docs: float, dense: int = 256) -> Need:
    return Need(docs, weights=120, slices=256, dense=dense)


def _value(some: Sequence[Any], name: str) -> str:
    found: str = next(step.value for step in some if step.name == name)
    return found


def load() -> str:
    """Return the server under load: the newest line of each encoder and duration."""
    newest = {(line["figures"]["encoder"], line["figures"]["seconds"]): line for line in lines("serve_load")}
    shown = serve_load.table([line["figures"] for line in newest.values()])
    return f"{shown}\n\n{cited('serve_load', newest.values())}"


def workers() -> str:
    """Return servers with and without workers beside an earlier one: the newest line of each encoder."""
    newest = {line["figures"]["encoder"]: line for line in lines("serve_workers")}
    shown = serve_workers.table([line["figures"] for line in newest.values()])
    return f"{shown}\n\n{cited('serve_workers', newest.values())}"


# --- training.md


def speed() -> str:
    """Return passages a second of training and encoding, on the GPU and on the CPU."""
    rows = [[f"training {name}, H200, several runs at a time", f"{rate:,.0f}"] for name, rate in training_speeds()]
    best: dict[str, float] = {}
    for one in lines("encode_gpu")[-1]["figures"]:
        heads = " + ".join(part for part in (one["lexical"], one["dense"]) if part != "none")
        best[heads] = max(best.get(heads, 0), one["passages_a_second"])
    rows += [[f"encoding {heads}, H200", f"{rate:,.0f}"] for heads, rate in best.items()]
    line = lines("train_cpu")[-1]
    rows.append([f"training {line['model']}, two CPU cores, batches of 32", f"{line['passages_per_s']:,.1f}"])
    for contender, measured in lines("encode_cpu")[-1]["figures"]["passages_a_second"].items():
        rows.append([f"encoding all-MiniLM-L6-v2, two CPU cores, {contender}", f"{measured['p50']:,.1f}"])
    return markdown(["", "passages a second"], rows)


if __name__ == "__main__":
    main()
