"""Refreshes the figures in docs/ from the newest lines of benchmarks/results. Words around the tables stay.

python benchmarks/pages.py
"""

from __future__ import annotations

import json
from collections.abc import Callable
from statistics import median
from typing import Any

import living
import msmarco
import search_cpu
from journal import RESULTS, ROOT
from slicing_page import refresh

MODELS = ("splade", "unicoil", "dense", "splade-dense", "unicoil-dense")
SLICES = (None, 768, 256, 128)
REPRODUCTION = ROOT / "docs" / "reproduction"
Line = dict[str, Any]


def main() -> None:
    """Refreshes every page whose results are there."""
    refresh(ROOT / "docs" / "training.md", {"models": models(), "slices": slices(), "speed": speed()})
    refresh(ROOT / "docs" / "living-index.md", {"living": measured("living", living.table)})
    refresh(ROOT / "docs" / "benchmarks.md", {"search": measured("search_cpu", search_cpu.table)})
    refresh(REPRODUCTION.with_suffix(".md"), reproduced() | {"msmarco": msmarco.table()})


def newest(name: str) -> tuple[Line, str]:
    """The last line of a result file, and where it stands."""
    lines = (RESULTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return json.loads(lines[-1]), f"`benchmarks/results/{name}.jsonl:{len(lines)}`"


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
