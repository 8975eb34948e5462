"""Tables of docs/gpu.md, from benchmarks/results/gpu.jsonl (runs of `denslice bench gpu`) and gpu_tries.jsonl."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from journal import RESULTS

Line = dict[str, Any]
SHOWN = 4  # runs, the last ones
STAGES = "two stages, 64 weights, then 10,000 rescored"
PEERS = {  # what the paper's formulation is compared with, for the same work
    "PyTorch, as the paper: 64 weights": "exact, 64 weights",
    "PyTorch, as the paper: every slice": "exact, every slice",
    f"PyTorch, as the paper: {STAGES}": STAGES,
    "PyTorch: dense scan": "dense exact",
}


def tables() -> dict[str, str]:
    """Every table of the page."""
    runs = dict(list(enumerate(_lines("gpu"), 1))[-SHOWN:])
    return {"runs": runs_table(runs), "peers": peers_table(runs), "tries": tries_table(_lines("gpu_tries"))}


def runs_table(runs: Mapping[int, Line]) -> str:
    """Milliseconds of each setting, a column for each run."""
    rows = [["gates", "slices", "dimensions", "search", *(f"run {n}, p50 ms (p95)" for n in runs)]]
    for at, one in enumerate(next(iter(runs.values()))["figures"]):
        place = [one["gates"], str(one["slices"]), str(one["dimensions"] or ""), one["name"]]
        rows.append([*place, *(_cell(run["figures"][at]) for run in runs.values())])
    told = [
        f"run {n}: `benchmarks/results/gpu.jsonl:{n}`, commit {run['commit']}, {run['configuration']['gpu']}, "
        f"{run['configuration']['docs']:,} documents, k = {run['configuration']['k']:,}"
        for n, run in runs.items()
    ]
    bytes_each = [next(o["bytes_a_posting"] for o in run["figures"] if o["slices"] == 768) for run in runs.values()]
    postings = f"Bytes a posting on the card, pointers included, 768 slices: {', '.join(map(str, bytes_each))}."
    return "\n".join([_markdown(rows), "", "; ".join(told) + ".", postings])


def peers_table(runs: Mapping[int, Line]) -> str:
    """How many times as long PyTorch takes for the same work on the same documents, in the same run."""
    rows = [["", *(f"run {n}" for n in runs)]]
    for peer, ours in PEERS.items():
        times = [f"{_p50(run, peer) / _p50(run, ours):.1f}×" for run in runs.values()]
        rows.append([f"{peer}, against {ours}", *times])
    exact = [f"{_p50(run, list(PEERS)[2]) / _p50(run, 'exact, every slice'):.1f}×" for run in runs.values()]
    rows.append([f"{list(PEERS)[2]}, against exact, every slice", *exact])
    return _markdown(rows)


def tries_table(tries: Sequence[Line]) -> str:
    """What each change was predicted to give, and what it gave."""
    rows = [["change", "predicted", "came"]]
    return _markdown(rows + [[one["change"], one["predicted"], one["came"]] for one in tries])


def _p50(run: Line, name: str) -> float:
    found: float = next(o["p50_ms"] for o in run["figures"] if o["name"] == name and o["gates"] == "uniform")
    return found


def _cell(one: Line) -> str:
    rate = f", {one['queries_a_second']:,} queries/s" if "queries_a_second" in one else ""
    return f"{one['p50_ms']:.3f} ({one['p95_ms']:.3f}){rate}"


def _lines(name: str) -> list[Line]:
    return [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], f"|{' --- |' * len(rows[0])}", *lines[1:]])
