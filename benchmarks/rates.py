"""Takes the rates that `denslice plan` counts with from the newest lines of benchmarks/results.

Writes src/denslice/cluster/rates.json. Each rate names the line it came from.

python benchmarks/rates.py
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from denslice.cluster.plan import KEPT_BYTES, kept_weights
from journal import RESULTS, ROOT

RATES = ROOT / "src" / "denslice" / "cluster" / "rates.json"
PROTOTYPE = {  # an NVIDIA H200 with 8,841,823 passages of 768 slices, 64 query weights; 768 dimensions in 3.2 ms
    "source": "a prototype of the GPU search on an NVIDIA H200, 8,841,823 passages",
    "docs": 8_841_823,
    "search_ms": 0.26,
    "dense_ms": 3.2,
    "dimensions": 768,
    "query_weights": 64.0,
    "weights": 106.4,
}
QUERY_WEIGHTS = 33.0  # of tools/splade_like.py's queries


def main() -> None:
    """Writes the file."""
    RATES.write_text(json.dumps(rates(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"wrote {RATES.relative_to(ROOT)}")


def rates(lines: dict[str, int] | None = None) -> dict[str, Any]:
    """The rates, from the newest lines or from those of these numbers."""
    return _cpu(lines) | _dense(lines) | _gpu() | _ray(lines) | _encoding(lines)


def line(name: str, lines: dict[str, int] | None) -> tuple[dict[str, Any], str]:
    """A line of a result file, the newest unless its number is given, and where it stands."""
    found = (RESULTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    number = (lines or {}).get(name, len(found))
    return json.loads(found[number - 1]), f"benchmarks/results/{name}.jsonl:{number}"


def _cpu(lines: dict[str, int] | None) -> dict[str, Any]:
    told, source = line("search_cpu", lines)
    figures, slices = told["figures"], told["configuration"]["slices"]
    kept = kept_weights(figures["weights_a_document"], slices)
    ms = figures["one_thread"][0]["p50_ms"] * 1e6 / figures["documents"]
    fixed = figures["bytes_a_document"] - KEPT_BYTES * figures["weights_a_document"]
    search = _rate(ms, "ms of one core a million passages, k = 10", source)
    return {
        "cpu_ms_a_million": search | {"kept": round(kept, 1), "query_weights": QUERY_WEIGHTS},
        "bytes_a_passage": _rate(fixed, "bytes beside weights, dense vector and text", source),
    }


def _dense(lines: dict[str, int] | None) -> dict[str, Any]:
    """A straight line through the widths measured."""
    told, source = line("dense_cpu", lines)
    widths = [one["dimensions"] for one in told["figures"]]
    slope, fixed = np.polyfit(widths, [one["ms_a_million"] for one in told["figures"]], 1)
    return {
        "cpu_dense_ms_a_million": _rate(max(fixed, 0.0), "ms of one core a million passages, of any width", source),
        "cpu_dense_ms_a_million_dimension": _rate(slope, "ms more for each dimension", source),
    }


def _gpu() -> dict[str, Any]:
    docs = PROTOTYPE["docs"] / 1e6
    search = _rate(PROTOTYPE["search_ms"] / docs, "ms of a GPU a million passages", PROTOTYPE["source"])
    dense = PROTOTYPE["dense_ms"] / docs / PROTOTYPE["dimensions"]
    kept = {"kept": round(kept_weights(PROTOTYPE["weights"], 768), 1), "query_weights": PROTOTYPE["query_weights"]}
    return {
        "gpu_ms_a_million": search | kept,
        "gpu_dense_ms_a_million_dimension": _rate(dense, "ms of a GPU for each dimension", PROTOTYPE["source"]),
    }


def _ray(lines: dict[str, int] | None) -> dict[str, Any]:
    told, source = line("ray_calls", lines)
    return {
        "ray_ms": _rate(max(told["figures"]["fixed_ms"], 0.0), "ms that Ray adds to a query", source),
        "ray_ms_a_shard": _rate(told["figures"]["ms_a_shard"], "ms that Ray adds for each shard", source),
    }


def _encoding(lines: dict[str, int] | None) -> dict[str, Any]:
    told, source = line("encode_mini", lines)
    mini = told["figures"]["passages_a_second"]["mini"] / told["hardware"]["cores"]
    gpu, gpu_source = line("encode_gpu", lines)
    splade = max(o["passages_a_second"] for o in gpu["figures"] if (o["lexical"], o["dense"]) == ("splade", "cls"))
    return {
        "mini_passages_a_core": _rate(mini, "passages a second that mini encodes on one core", source),
        "gpu_passages": _rate(splade, "passages a second that SPLADE + [CLS] encodes on one H200", gpu_source),
    }


def _rate(value: float, unit: str, source: str) -> dict[str, Any]:
    return {"value": round(float(value), 6), "unit": unit, "source": source}


if __name__ == "__main__":
    main()
