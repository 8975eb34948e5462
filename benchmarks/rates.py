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
FEW = 64  # query weights of the GPU's smaller measurement
QUERY_WEIGHTS = 33.0  # of tools/splade_like.py's queries


def main() -> None:
    """Writes the file."""
    RATES.write_text(json.dumps(rates(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"wrote {RATES.relative_to(ROOT)}")


def rates(lines: dict[str, int] | None = None) -> dict[str, Any]:
    """The rates, from the newest lines or from those of these numbers."""
    return _cpu(lines) | _dense(lines) | _gpu(lines) | _ray(lines) | _encoding(lines)


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


def _gpu(lines: dict[str, int] | None) -> dict[str, Any]:
    """Of passages with a weight in every slice: a straight line through few and all query weights, and a dense scan."""
    told, source = line("gpu", lines)
    millions = told["configuration"]["docs"] / 1e6
    times = {(one["name"], one["gates"]): one for one in told["figures"]}
    few, every = times["exact, 64 weights", "Zipf-like"], times["exact, every slice", "Zipf-like"]
    slope = (every["p50_ms"] - few["p50_ms"]) / (every["slices"] - FEW)
    dense = next(one for one in told["figures"] if one["name"] == "dense exact")
    weights = _rate(FEW * slope / millions, "ms of a GPU more for the weights", source)
    return {
        "gpu_ms_a_million": _rate((few["p50_ms"] - FEW * slope) / millions, "ms of a GPU a million passages", source),
        "gpu_ms_a_million_weights": weights | {"kept": every["slices"], "query_weights": FEW},
        "gpu_dense_ms_a_million_dimension": _rate(
            dense["p50_ms"] / millions / dense["dimensions"], "ms of a GPU for each dimension", source
        ),
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
