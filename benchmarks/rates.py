"""Takes the rates that `denslice plan` counts with from the newest lines of benchmarks/results.

Writes src/denslice/capacity/rates.json. Each rate names the line it came from, its commit and date, and the format of
the index that was read, null where none was.

python benchmarks/rates.py
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from denslice.capacity.plan import KEPT_BYTES, LOST_BYTES, kept_weights
from journal import RESULTS, ROOT

RATES = ROOT / "src" / "denslice" / "capacity" / "rates.json"
FEW = 64  # query weights of the GPU's smaller measurement
MILLION = "splade-like-1000000"  # the collection that search on the CPU is taken from
INDEX_FORMATS = {"d0f9d32e72d6": 1, "eb89099d29ce": 2, "56f68c721803": 2}  # of commits whose lines do not tell it
WITHOUT_INDEX = ("ray_calls", "encode_mini", "encode_gpu")


@dataclass(frozen=True)
class Source:
    """A line of a result file."""

    told: dict[str, Any]
    place: str
    index_format: int | None

    def rate(self, value: float, unit: str) -> dict[str, Any]:
        """A rate, and where and when it was measured."""
        measured = {"source": self.place, "commit": self.told["commit"], "date": self.told["date"][:10]}
        return {"value": round(float(value), 6), "unit": unit, **measured, "index_format": self.index_format}


def main() -> None:
    """Writes the file."""
    RATES.write_text(json.dumps(rates(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"wrote {RATES.relative_to(ROOT)}")


def rates(lines: dict[str, int] | None = None) -> dict[str, Any]:
    """The rates, from the newest lines or from those of these numbers."""
    return _cpu(lines) | _dense(lines) | _gpu(lines) | _ray(lines) | _encoding(lines)


def source(name: str, lines: dict[str, int] | None, collection: str | None = None) -> Source:
    """A line of a result file, the newest (of a collection) unless its number is given."""
    found = [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    newest = max(at for at, line in enumerate(found, 1) if collection in (None, line.get("collection")))
    number = (lines or {}).get(name, newest)
    told = found[number - 1]
    index_format = None if name in WITHOUT_INDEX else told.get("index_format") or INDEX_FORMATS[told["commit"]]
    return Source(told, f"benchmarks/results/{name}.jsonl:{number}", index_format)


def _cpu(lines: dict[str, int] | None) -> dict[str, Any]:
    measured = source("bench_cpu", lines, MILLION)
    figures = measured.told["figures"]
    ours = next(one for one in figures["contenders"] if one["name"] == "denslice")
    docs, weights = figures["documents"], figures["weights_a_document"]
    kept = kept_weights(weights, measured.told["slices"])
    ms = next(one["p50_ms"] for one in ours["settings"] if one["k"] == 10 and one.get("reported"))
    fixed = ours["build"]["bytes"] / docs - KEPT_BYTES * kept - LOST_BYTES * (weights - kept)
    search = measured.rate(ms * 1e6 / docs, "ms of one core a million passages, k = 10")
    return {
        "cpu_ms_a_million": search | {"kept": round(kept, 1), "query_weights": figures["weights_a_query"]},
        "bytes_a_passage": measured.rate(fixed, "bytes beside weights, dense vector and text"),
    }


def _dense(lines: dict[str, int] | None) -> dict[str, Any]:
    """A straight line through the widths measured."""
    measured = source("dense_cpu", lines)
    figures = measured.told["figures"]
    slope, fixed = np.polyfit([one["dimensions"] for one in figures], [one["ms_a_million"] for one in figures], 1)
    return {
        "cpu_dense_ms_a_million": measured.rate(max(fixed, 0.0), "ms of one core a million passages, of any width"),
        "cpu_dense_ms_a_million_dimension": measured.rate(slope, "ms more for each dimension"),
    }


def _gpu(lines: dict[str, int] | None) -> dict[str, Any]:
    """Of passages with a weight in every slice: a straight line through few and all query weights, and a dense scan."""
    measured = source("gpu", lines)
    figures = measured.told["figures"]
    millions = measured.told["configuration"]["docs"] / 1e6
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


def _ray(lines: dict[str, int] | None) -> dict[str, Any]:
    measured = source("ray_calls", lines)
    figures = measured.told["figures"]
    return {
        "ray_ms": measured.rate(max(figures["fixed_ms"], 0.0), "ms that Ray adds to a query"),
        "ray_ms_a_shard": measured.rate(figures["ms_a_shard"], "ms that Ray adds for each shard"),
    }


def _encoding(lines: dict[str, int] | None) -> dict[str, Any]:
    cpu, gpu = source("encode_mini", lines), source("encode_gpu", lines)
    mini = cpu.told["figures"]["passages_a_second"]["mini"] / cpu.told["hardware"]["cores"]
    heads = [one for one in gpu.told["figures"] if (one["lexical"], one["dense"]) == ("splade", "cls")]
    splade = max(one["passages_a_second"] for one in heads)
    return {
        "mini_passages_a_core": cpu.rate(mini, "passages a second that mini encodes on one core"),
        "gpu_passages": gpu.rate(splade, "passages a second that SPLADE + [CLS] encodes on one H200"),
    }


if __name__ == "__main__":
    main()
