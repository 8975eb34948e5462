"""Refreshes the figures in docs/ from the newest lines of benchmarks/results. Words around the tables stay.

python benchmarks/pages.py
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import gpu_page
import living
import msmarco
import scaling_page
import serve_load
from denslice.bench.bench_table import ratios, table
from denslice.bench.recall_plot import recall_against_time, time_against_size
from journal import RESULTS, ROOT
from slicing_page import refresh

MODELS = ("splade", "unicoil", "dense", "splade-dense", "unicoil-dense")
FIVE = ("scifact:test", "fiqa-judged:test", "squad-dev:test", "cranfield:test", "npl:test")
UNRELATED = ("fiqa-judged:test", "cranfield:test", "npl:test")  # nothing of their kind was trained on
IN_DOMAIN = ("acl-title-abstract:test", "medquad:test")
SLICES = (None, 768, 256, 128)
SHIPPED = (
    ("BM25", "untrained-768", "lexical"), ("MiniLM", "untrained-768", "dense"),
    ("their sum, λ 20", "untrained-768", "λ 20"), ("λ 40", "untrained-768", "λ 40"),
    ("mini, words", "mini-768", "lexical"), ("mini, meaning", "mini-768", "dense"),
    ("**mini**", "mini-768", "hybrid"), ("M = 128", "mini-128", "hybrid"),
    ("M = 768, float32", "mini-float-768", "hybrid"),
)  # fmt: skip
LOOKS = (
    ("A", "without-768", "hybrid"), ("B", "together-broader-768", "hybrid"),
    ("B, words", "together-broader-768", "lexical"), ("A, phrases 0.4, λ 50", "gentle-bold-768", "hybrid"),
    ("halfway, phrases 0.3", "halfway-768", "hybrid"), ("the same, b = 0.3: shipped", "mini-768", "hybrid"),
)  # fmt: skip
REPRODUCTION = ROOT / "docs" / "reproduction"
PICTURES = ROOT / "docs" / "benchmarks"
Line = dict[str, Any]


def main() -> None:
    """Refreshes every page whose results are there."""
    refresh(ROOT / "docs" / "training.md", {"models": models(), "slices": slices(), "speed": speed()})
    refresh(ROOT / "docs" / "living-index.md", {"living": measured("living", living.table)})
    refresh(ROOT / "docs" / "benchmarks.md", cpu())
    tables = {"quality": quality(SHIPPED, (*FIVE, *IN_DOMAIN)), "looks": quality(LOOKS, FIVE)}
    tables |= {"speed": mini_speed(), "tries": tries(), "phrases": phrases(), "lengths": lengths()}
    refresh(ROOT / "docs" / "mini.md", tables)
    refresh(ROOT / "docs" / "serving.md", {"load": load()})
    refresh(ROOT / "docs" / "scaling.md", scaling_page.tables())
    refresh(ROOT / "docs" / "gpu.md", gpu_page.tables())
    refresh(REPRODUCTION.with_suffix(".md"), reproduced() | {"msmarco": msmarco.table()})


def newest(name: str) -> tuple[Line, str]:
    """The last line of a result file, and where it stands."""
    lines = (RESULTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return json.loads(lines[-1]), f"`benchmarks/results/{name}.jsonl:{len(lines)}`"


def cpu() -> dict[str, str]:
    """What `denslice bench cpu` measured last of each collection, as tables and pictures."""
    lines = (RESULTS / "bench_cpu.jsonl").read_text(encoding="utf-8").splitlines()
    newest = {}
    for number, line in enumerate(map(json.loads, lines), 1):
        slices = "" if line.get("slices", 768) == 768 else f", {line['slices']} slices"
        newest[line["collection"] + slices] = (number, line)
    made = {}
    for collection, (number, line) in newest.items():
        name = "".join(letter if letter.isalnum() else "-" for letter in collection)
        told = (
            f"From `benchmarks/results/bench_cpu.jsonl:{number}`, commit {line['commit']}, {line['hardware']['cpu']}."
        )
        made[name] = f"{table(line)}\n\n{told}"
        if len(line["figures"]["contenders"]) > 1:
            made[f"{name}-ratios"] = ratios(line)
            if len(line["figures"]["contenders"]) > 2:
                (PICTURES / f"{name}.svg").write_bytes(recall_against_time(line))
    alike = [line for collection, (_, line) in newest.items() if collection.startswith("splade-like")]
    (PICTURES / "size.svg").write_bytes(time_against_size(alike))
    return made


def trained() -> dict[str, Line]:
    """The newest test result of each model."""
    lines = [json.loads(line) for line in (RESULTS / "train_acl.jsonl").read_text(encoding="utf-8").splitlines()]
    return {line["model"]: line for line in lines if line["split"] == "test"}


def models() -> str:
    """Each model and each part of it with every weight."""
    rows = [["model", "scored by", "RR@10", "nDCG@10", "R@1000", "weights a passage"]]
    for name in MODELS:
        line = trained()[name]
        for view in ("lexical", "dense", "joint"):
            if view in line["measures"]:
                found = line["measures"][view]
                weights = f"{line['weights']['docs']:.0f}" if view == "lexical" else ""
                rows.append([name, view, *(f"{found[m]:.4f}" for m in ("RR@10", "nDCG@10", "R@1000")), weights])
    return markdown(rows)


def slices() -> str:
    """RR@10 of the lexical and joint scores by number of slices, and what is left of it in percent."""
    rows = [["model", "scored by", "30K", *(f"{m}, query {q}" for m in SLICES[1:] for q in ("sliced", "full"))]]
    for name in MODELS:
        measures = trained()[name]["measures"]
        for view in ("lexical", "joint"):
            if view in measures:
                whole = measures[view]["RR@10"]
                names = [f"{view}-{m}{full}" for m in SLICES[1:] for full in ("", "-full")]
                cells = [measures[one]["RR@10"] for one in names]
                rows.append([name, view, f"{whole:.4f}", *(f"{c:.4f} ({100 * c / whole:.1f} %)" for c in cells)])
    return markdown(rows)


def speed() -> str:
    """Passages a second, training and encoding, on the GPU and on the CPU."""
    rows = [["", "passages a second"]]
    for name in MODELS:
        log = [json.loads(line) for line in (RESULTS / "acl" / name / "log.jsonl").read_text().splitlines()]
        rates = [entry["passages_per_s"] for entry in log if "passages_per_s" in entry]
        rows.append([f"training {name}, H200, two or three runs at a time", f"{median(rates):,.0f}"])
    line, _ = newest("encode_gpu")
    best: dict[str, float] = {}
    for one in line["figures"]:
        heads = " + ".join(part for part in (one["lexical"], one["dense"]) if part != "none")
        best[heads] = max(best.get(heads, 0), one["passages_a_second"])
    rows += [[f"encoding {heads}, H200", f"{rate:,.0f}"] for heads, rate in best.items()]
    line, _ = newest("train_cpu")
    rows.append([f"training {line['model']}, two CPU cores, batches of 32", f"{line['passages_per_s']:,.1f}"])
    line, _ = newest("encode_cpu")
    for contender, rates in line["figures"]["passages_a_second"].items():
        rows.append([f"encoding all-MiniLM-L6-v2, two CPU cores, {contender}", f"{rates['p50']:,.1f}"])
    return markdown(rows)


def quality(columns: Sequence[tuple[str, str, str]], names: Sequence[str]) -> str:
    """nDCG@10 by collection: a column is of an encoder and a number of slices, in one way of searching."""
    found: dict[tuple[str, str], tuple[Line, str]] = {}
    lines = (RESULTS / "mini_quality.jsonl").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(map(json.loads, lines), 1):
        encoder = line["configuration"]["encoder"]
        if "phrases" not in line["configuration"] and encoder.startswith("mini"):  # before there were any
            encoder = encoder.replace("mini", "without")
        place = f"`benchmarks/results/mini_quality.jsonl:{number}` (commit {line['commit']})"
        for collection, by_slices in line["figures"]["ndcg@10"].items():
            found |= {(collection, f"{encoder}-{slices}"): (ways, place) for slices, ways in by_slices.items()}
    cells = {name: [found.get((name, key), ({}, ""))[0].get(way) for _, key, way in columns] for name in names}
    rows = [["collection", *(name for name, _, _ in columns)]]
    rows += [[_called(name), *map(_cell, cells[name])] for name in FIVE]
    for told, some in (("**mean of the five**", FIVE), ("mean of the three unrelated", UNRELATED)):
        means = [_mean_of([cells[name][at] for name in some]) for at in range(len(columns))]  # where all were measured
        rows.append([told, *map(_cell, means)])
    rows += [[_called(name), *map(_cell, cells[name])] for name in names if name in IN_DOMAIN]
    shown = {key for _, key, _ in columns}
    places = dict.fromkeys(place for (name, key), (_, place) in found.items() if name in names and key in shown)
    return f"{markdown(rows)}\n\nFrom {', '.join(places)}."


def _called(name: str) -> str:
    """A collection's name, and whether training saw other questions of its kind."""
    return name.partition(":")[0] + ("" if name in UNRELATED else ", in domain")


def lengths() -> str:
    """nDCG@10 with a fixed average length and with each collection's own, a row for each line of the result file."""
    path = RESULTS / "average_length.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    fixed = list(dict.fromkeys(one for line in lines for one in line["figures"]["mean"]))
    rows = [["encoder", "mean over", *fixed]]
    for line in lines:
        means = line["figures"]["mean"]
        names = ", ".join(name.replace(":", " ") for name in line["figures"]["ndcg@10"])
        rows.append([line["configuration"]["encoder"], names, *(_cell(means.get(one)) for one in fixed)])
    commits = ", ".join(dict.fromkeys(line["commit"] for line in lines))
    return f"{markdown(rows)}\n\nFrom `benchmarks/results/average_length.jsonl`, commits {commits}."


def mini_speed() -> str:
    """Passages a second and ms a query of the embedded model."""
    line, place = newest("encode_mini")
    figures = line["figures"]
    rates = figures["passages_a_second"]
    rows = [["two CPU cores", ""]]
    rows.append(["mini, passages a second", f"{rates['mini']:.1f}"])
    rows.append(
        ["sentence-transformers, all-MiniLM-L6-v2 in float32, same texts", f"{rates['sentence_transformers']:.1f}"]
    )
    rows.append(["times as fast", f"{figures['times_as_fast']:.2f}"])
    rows.append(["mini, ms a query, median (p95)", f"{figures['query_ms']['p50']} ({figures['query_ms']['p95']})"])
    return f"{markdown(rows)}\n\nFrom {place}, commit {line['commit']}, {line['hardware']['cpu']}."


def tries() -> str:
    """What each training run gave on dev splits, by how far its weights are taken, and sums of several."""
    lines = [json.loads(line) for line in (RESULTS / "mini_tries.jsonl").read_text(encoding="utf-8").splitlines()]
    kinds = ("seen", "unseen")
    rows = [["shares of runs", *(f"{part}, {kind}" for part in ("words", "meaning", "both λ 40") for kind in kinds)]]
    rows[0] += ["all", "best λ"]
    for line in lines:
        parts = [f"{line[kind][way]:.4f}" for way in ("lexical", "dense", "40") for kind in kinds]
        rows.append([_shares(line), *parts, f"{line['mean']['40']:.4f}", str(line["best"]["lam"])])
    return f"{markdown(rows)}\n\nFrom `benchmarks/results/mini_tries.jsonl`."


def phrases() -> str:
    """What phrases gave on dev splits, in 8 bits and through an index: means over the collections, for each λ."""
    path = RESULTS / "mini_phrases.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    ways = list(next(iter(lines[0]["ndcg@10"].values())))
    rows = [["weights", "phrases", *(f"λ {way}" if way.isdigit() else "words alone" for way in ways)]]
    for line in lines:
        means = [_mean_of([one[way] for one in line["ndcg@10"].values()]) for way in ways]
        rows.append([line["weights"], f"{line['phrases']:g}", *map(_cell, means)])
    return f"{markdown(rows)}\n\nFrom `benchmarks/results/mini_phrases.jsonl`."


def _shares(line: Line) -> str:
    """Which runs' changes a try has, and how much of each."""
    shares = line["shares"] if "shares" in line else {line["config"]: line["share"]}
    told = [f"{share:.3g} {name}" for name, share in shares.items() if share]
    return " + ".join(told) or "untrained"


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _mean_of(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def load() -> str:
    """The server under load: the newest line of each encoder and time."""
    lines = (RESULTS / "serve_load.jsonl").read_text(encoding="utf-8").splitlines()
    kept: dict[tuple[str, float], tuple[int, Line]] = {}
    for number, line in enumerate(map(json.loads, lines), 1):
        kept[line["figures"]["encoder"], line["figures"]["seconds"]] = number, line
    table = serve_load.table([line["figures"] for _, line in kept.values()])
    places = [f"`benchmarks/results/serve_load.jsonl:{at}`, commit {line['commit']}" for at, line in kept.values()]
    hardware = sorted({line["hardware"]["cpu"] for _, line in kept.values()})
    return f"{table}\n\nFrom {'; '.join(places)}. {', '.join(hardware)}."


def reproduced() -> dict[str, str]:
    """What `denslice reproduce --to docs/reproduction/COLLECTION` wrote, by collection and name."""
    found = {}
    for path in sorted(REPRODUCTION.glob("*/*.md")):
        data = path.parent.name
        text = path.read_text(encoding="utf-8").strip()
        found[f"{data}-{path.stem}"] = text.replace("](figure3", f"](reproduction/{data}/figure3")
    return found


def measured(name: str, table: Callable[[Any], str]) -> str:
    """The newest figures of a benchmark, in its own table."""
    line, place = newest(name)
    return f"{table(line['figures'])}\n\nFrom {place}, commit {line['commit']}, {line['hardware']['cpu']}."


def markdown(rows: list[list[str]]) -> str:
    """A table; the first row is its head."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], f"|{' --- |' * len(rows[0])}", *lines[1:]])


if __name__ == "__main__":
    main()
