"""Writes src/denslice/capacity/rates.json, the rates of `denslice plan`, from the newest lines of benchmarks/results.

    python benchmarks/rates.py

Each rate names its result file, commit and date, and the index format it was measured with (null if no index was read).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from denslice.capacity.plan import KEPT_BYTES, LOST_BYTES, kept_weights
from journal import ROOT, lines

RATES = ROOT / "src" / "denslice" / "capacity" / "rates.json"
FEW = 64  # query weights of the GPU's smaller measurement
MILLION = "splade-like-1000000"  # the collection that CPU search is measured on
INDEX_FORMATS = {"d0f9d32e72d6": 1, "eb89099d29ce": 2, "56f68c721803": 2}  # of commits whose lines lack it
WITHOUT_INDEX = ("ray_calls", "encode_mini", "encode_gpu")


@dataclass(frozen=True)
class Source:
    """A line of a result file."""

    line: dict[str, Any]
    file: str
    index_format: int | None

    def rate(self, value: float, unit: str) -> dict[str, Any]:
        """Return a rate with its file, commit, date and index format."""
        measured = {"source": self.file, "commit": self.line["commit"], "date": self.line["date"][:10]}
        return {"value": round(float(value), 6), "unit": unit, **measured, "index_format": self.index_format}


def main() -> None:
    """Write the file."""
    RATES.write_text(json.dumps(rates(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"wrote {RATES.relative_to(ROOT)}")


def rates(commits: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the rates from the newest lines, or from those of these commits, by name of the result file."""
    return _cpu(commits) | _dense(commits) | _gpu(commits) | _ray(commits) | _encoding(commits)


def source(name: str, commits: Mapping[str, str] | None, collection: str | None = None) -> Source:
    """Return the newest line of a result file, or the newest of a commit; `collection` restricts it further."""
    wanted = {"commit": (commits or {}).get(name), "collection": collection}
    found = [line for line in lines(name) if all(line.get(key) == one for key, one in wanted.items() if one)]
    line = found[-1]
    index_format = None if name in WITHOUT_INDEX else line.get("index_format") or INDEX_FORMATS[line["commit"]]
    return Source(line, f"benchmarks/results/{name}.jsonl", index_format)


def _cpu(commits: Mapping[str, str] | None) -> dict[str, Any]:
    measured = source("bench_cpu", commits, MILLION)
    figures = measured.line["figures"]
    ours = next(one for one in figures["contenders"] if one["name"] == "denslice")
    docs, weights = figures["documents"], figures["weights_a_document"]
    kept = kept_weights(weights, measured.line["slices"])
    ms = next(one["p50_ms"] for one in ours["settings"] if one["k"] == 10 and one.get("reported"))
    fixed = ours["build"]["bytes"] / docs - KEPT_BYTES * kept - LOST_BYTES * (weights - kept)
    search = measured.rate(ms * 1e6 / docs, "ms of one core a million passages, k = 10")
    return {
        "cpu_ms_a_million": search | {"kept": round(kept, 1), "query_weights": figures["weights_a_query"]},
        "bytes_a_passage": measured.rate(fixed, "bytes beside weights, dense vector and text"),
    }


def _dense(commits: Mapping[str, str] | None) -> dict[str, Any]:
    """Fit a straight line to the times of the measured widths."""
    measured = source("dense_cpu", commits)
    figures = measured.line["figures"]
    slope, fixed = np.polyfit([one["dimensions"] for one in figures], [one["ms_a_million"] for one in figures], 1)
    return {
        "cpu_dense_ms_a_million": measured.rate(max(fixed, 0.0), "ms of one core a million passages, of any width"),
        "cpu_dense_ms_a_million_dimension": measured.rate(slope, "ms more for each dimension"),
    }


def _gpu(commits: Mapping[str, str] | None) -> dict[str, Any]:
    """Fit a straight line to few and all query weights, over passages with a weight in every slice."""
    measured = source("gpu", commits)
    figures = measured.line["figures"]
    millions = measured.line["configuration"]["docs"] / 1e6
    times = {(one["name"], one["gates"]): one for one in figures}
    few, every = times["exact, 64 weights", "Zipf-like"], times["exact, every slice", "Zipf-like"]
    slope = (every["p50_ms"] - few["p50_ms"]) / (every["slices"] - FEW)
    dense = next(one for one in figures if one["name"] == "dense exact")
    weights = measured.rate(FEW * slope / millions, "ms of a GPU more for the weights")
    fixed = (few["p50_ms"] - FEW * slope) / millions
    a_dimension = dense["p50_ms"] / millions / dense["dimensions"]
    return {
        "gpu_ms_a_million": measured.rate(fixed, "ms of a GPU a million passages"),
        "gpu_ms_a_million_weights": weights | {"kept": every["slices"], "query_weights": FEW},
        "gpu_dense_ms_a_million_dimension": measured.rate(a_dimension, "ms of a GPU for each dimension"),
    }


def _ray(commits: Mapping[str, str] | None) -> dict[str, Any]:
    measured = source("ray_calls", commits)
    figures = measured.line["figures"]
    return {
        "ray_ms": measured.rate(max(figures["fixed_ms"], 0.0), "ms that Ray adds to a query"),
        "ray_ms_a_shard": measured.rate(figures["ms_a_shard"], "ms that Ray adds for each shard"),
    }


def _encoding(commits: Mapping[str, str] | None) -> dict[str, Any]:
    cpu, gpu = source("encode_mini", commits), source("encode_gpu", commits)
    mini = cpu.line["figures"]["passages_a_second"]["mini"] / cpu.line["hardware"]["cores"]
    heads = [one for one in gpu.line["figures"] if (one["lexical"], one["dense"]) == ("splade", "cls")]
    splade = max(one["passages_a_second"] for one in heads)
    return {
        "mini_passages_a_core": cpu.rate(mini, "passages a second that mini encodes on one core"),
        "gpu_passages": gpu.rate(splade, "passages a second that SPLADE + [CLS] encodes on one H200"),
    }


if __name__ == "__main__":
    main()
