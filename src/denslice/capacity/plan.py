"""Capacity plans: disk, memory, machines or GPUs, latency and throughput of a collection, from measured rates.

Every figure is shown with its arithmetic. rates.json holds the rates, and where, when and with which index format each
was measured.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from denslice.scalars import number
from denslice.store.manifest import INDEX_FORMAT

KEPT_BYTES = 7  # of a weight that the slicing keeps: its posting and its entry in the row
LOST_BYTES = 4  # of a weight that the slicing drops: its entry in the row
POSTING_BYTES = 3
WIDE_KEYS = 1 << 16  # with more tokens than this, a key takes two more bytes
FLOAT16_BYTES = 2
MEMORY_USE = 0.8  # the fraction of memory that a plan fills
PROCESSOR_USE = 0.7  # the fraction of time that a plan keeps processors busy
MILLION = 1e6


@dataclass(frozen=True)
class Need:
    """The collection, the load and the machines of a plan, named as the options of `denslice plan`."""

    docs: float
    weights: float = 120.0  # of a passage, before any slicing
    slices: int | None = None  # None: every token is kept
    dense: int = 0  # dimensions
    text: float = 500.0  # bytes of a passage's text and metadata
    vocab: int = 30_522
    query_weights: float = 33.0
    queries: float = 10.0  # a second
    latency: float = 200.0  # ms
    replicas: int = 2
    memory: float = 256.0  # GB of a machine
    cores: int = 64  # of a machine
    gpu_memory: float = 141.0  # GB of a GPU
    scan_dense: bool = True  # score the dense vector of every passage, not only of lexical candidates

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "scan_dense" and (field.name, value) != ("slices", None):
                number(field.name, value, 0, above=field.name not in ("dense", "text"))


class Step(NamedTuple):
    """One figure of a plan: its name, its value and its arithmetic."""

    name: str
    value: str
    arithmetic: str


@dataclass(frozen=True)
class Fleet:
    """The machines that a plan needs with one kind of processor."""

    device: str  # "CPU" or "GPU"
    machines: int
    shards: int
    latency: float  # ms
    queries: float  # a second, at most
    memory: float  # bytes of all replicas
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class CapacityPlan:
    """The size of a collection, and the machines that it needs with CPUs and with GPUs."""

    need: Need
    kept: float
    disk: float  # bytes of one copy
    steps: tuple[Step, ...]
    cpu: Fleet
    gpu: Fleet

    def to_json(self) -> dict[str, Any]:
        """Return the plan as a JSON object."""
        fleets = {fleet.device.lower(): fleet for fleet in (self.cpu, self.gpu)}
        return {
            "need": vars(self.need),
            "kept_weights": self.kept,
            "disk_bytes": self.disk,
            **{name: {k: v for k, v in vars(one).items() if k != "steps"} for name, one in fleets.items()},
            "arithmetic": [step._asdict() for step in (*self.steps, *self.cpu.steps, *self.gpu.steps)],
            "index_format": INDEX_FORMAT,
            "rates": rates(),
            "outdated_rates": [name for name, rate in rates().items() if is_outdated(rate, INDEX_FORMAT)],
        }


@cache
def rates() -> dict[str, Any]:
    """Return the measured rates, each with its source, date and index format, which is None if no index was read."""
    measured: dict[str, Any] = json.loads((files("denslice.capacity") / "rates.json").read_text(encoding="utf-8"))
    return measured


def is_outdated(rate: Mapping[str, Any], index_format: int) -> bool:
    """Return whether a rate was measured with an older index format than this one."""
    return rate["index_format"] is not None and rate["index_format"] < index_format


def origin(rate: Mapping[str, Any], index_format: int) -> str:
    """Return where, when and with which index format a rate was measured, and whether that format is older."""
    text = f"{rate['source']}, {rate['date']}"
    if rate["index_format"] is None:
        return text
    text = f"{text}, index format {rate['index_format']}"
    return f"{text}, older than this version's {index_format}" if is_outdated(rate, index_format) else text


def plan(need: Need) -> CapacityPlan:
    """Compute the plan for a need."""
    kept = kept_weights(need.weights, need.slices)
    disk, steps = _disk(need, kept)
    return CapacityPlan(need, kept, disk, tuple(steps), _cpu(need, kept), _gpu(need, kept))


def kept_weights(weights: float, slices: int | None) -> float:
    """Return how many weights a random slicing keeps on average; a learned one keeps more, and no slicing all."""
    if slices is None:
        return weights
    return float(slices * (1 - (1 - 1 / slices) ** weights))


def lines(plan: CapacityPlan) -> Iterator[str]:
    """Yield the plan as lines for people to read."""
    groups = (("the collection", plan.steps), ("on CPUs", plan.cpu.steps), ("on GPUs", plan.gpu.steps))
    for title, steps in groups:
        yield title
        for step in steps:
            yield f"  {step.name:<22} {step.value:>14}  = {step.arithmetic}"
    yield "rates"
    for name, rate in rates().items():
        yield f"  {name:<22} {rate['value']:>14g}  {rate['unit']}, from {origin(rate, INDEX_FORMAT)}"
    if any(is_outdated(rate, INDEX_FORMAT) for rate in rates().values()):
        yield "Rates of an older index format may be wrong for this one; measure them again with benchmarks/."


def _disk(need: Need, kept: float) -> tuple[float, list[Step]]:
    lost, extra = need.weights - kept, 2 if need.vocab > WIDE_KEYS else 0
    fixed = _rate("bytes_a_passage")
    in_row, in_both = LOST_BYTES + extra, KEPT_BYTES + extra
    one = kept * in_both + lost * in_row + FLOAT16_BYTES * need.dense + fixed + need.text
    parts = f"{kept:.0f} × {in_both} + {lost:.0f} lost × {in_row} + {need.dense} × {FLOAT16_BYTES} dense"
    sliced = f"{need.slices} × (1 − (1 − 1/{need.slices})^{need.weights:g}), of {need.weights:g}"
    tokens = "every token" if need.slices is None else sliced
    return need.docs * one, [
        Step("weights kept", f"{kept:.0f}", tokens),
        Step("a passage on disk", _size(one), f"{parts} + {fixed:.0f} + {need.text:.0f} text, bytes"),
        Step("disk", _size(need.docs * one), f"{need.docs:,.0f} × {_size(one)}; replicas read the same files"),
    ]


@dataclass(frozen=True)
class Processor:
    """A kind of processor, and the names of its measured rates."""

    device: str
    unit: str  # what searches a shard: a core or a GPU
    units: int  # of a machine
    memory: float  # GB of a machine
    fixed: str  # the cost of a passage that does not depend on its weights, or ""
    search: str
    dense: tuple[str, ...]
    encode: str


def _cpu(need: Need, kept: float) -> Fleet:
    dense = ("cpu_dense_ms_a_million", "cpu_dense_ms_a_million_dimension")
    cores = Processor("CPU", "core", need.cores, need.memory, "", "cpu_ms_a_million", dense, "mini_passages_a_core")
    return _fleet(need, cores, kept, kept * POSTING_BYTES)


def _gpu(need: Need, kept: float) -> Fleet:
    dense = ("gpu_dense_ms_a_million_dimension",)
    gpus = Processor(
        "GPU", "GPU", 1, need.gpu_memory, "gpu_ms_a_million", "gpu_ms_a_million_weights", dense, "gpu_passages"
    )
    return _fleet(need, gpus, kept, kept * KEPT_BYTES)  # postings, and rows for exact scores


def _fleet(need: Need, of: Processor, kept: float, hot: float) -> Fleet:
    """Return the machines that are enough for the memory, the latency and the throughput of the need."""
    hot += FLOAT16_BYTES * need.dense if need.scan_dense else 0
    work, arithmetic = _work(need, of, kept)
    memory = need.docs * hot * need.replicas
    by_memory = memory / (of.memory * 1e9 * MEMORY_USE)
    fewest = _fewest_shards(work, need.latency)
    by_latency = fewest * need.replicas / of.units
    by_throughput = need.queries * work / 1000 / PROCESSOR_USE / of.units
    machines = max(need.replicas, math.ceil(max(by_memory, by_latency, by_throughput)))
    shards = max(fewest, machines // need.replicas)
    fixed, each = _rate("ray_ms"), _rate("ray_ms_a_shard")
    latency, most = work / shards + fixed + each * shards, machines * of.units * PROCESSOR_USE / (work / 1000)
    rate = _rate(of.encode)
    encode = need.docs / rate / (machines * of.units)
    has = f"{of.units} cores and " if of.units > 1 else ""
    needs = f"memory {by_memory:.1f}, latency {by_latency:.1f}, {need.queries:g} a second {by_throughput:.1f}"
    needs += f", replicas apart {need.replicas}"
    quick = f"enough for {need.latency:g} ms" if latency <= need.latency else "as quick as one driver can be"
    steps = (
        Step("read by searches", _size(memory), f"{need.docs:,.0f} × {hot:.0f} bytes × {need.replicas} replicas"),
        Step(f"{of.unit} time a query", _seconds(work), arithmetic),
        Step("shards", f"{shards:,}", f"{quick}, and at least one a machine and replica"),
        Step(
            "machines" if of.units > 1 else "GPUs",
            f"{machines:,}",
            f"the most of {needs}; each has {has}{of.memory:g} GB, {MEMORY_USE:.0%} full, {PROCESSOR_USE:.0%} busy",
        ),
        Step("latency", _seconds(latency), f"{_seconds(work)} / {shards:,} + {fixed:.1f} + {shards:,} × {each:.2g} ms"),
        Step("queries a second", f"{most:,.1f}", f"{machines:,} × {of.units} × {PROCESSOR_USE} / {_seconds(work)}"),
        Step("encoding", _days(encode), f"{need.docs:,.0f} / {rate:,.0f} a second / ({machines:,} × {of.units})"),
    )
    return Fleet(of.device, machines, shards, latency, most, memory, steps)


def _fewest_shards(work: float, latency: float) -> int:
    """Return the fewest shards n for which work / n + Ray's time for n shards is within the latency.

    If no n is enough, return the n with the lowest latency.
    """
    fixed, each = _rate("ray_ms"), _rate("ray_ms_a_shard")
    left = latency - fixed
    square = left**2 - 4 * each * work
    if left <= 0 or square < 0:
        return max(1, round(math.sqrt(work / each)))
    return max(1, math.ceil((left - math.sqrt(square)) / (2 * each)))


def _work(need: Need, of: Processor, kept: float) -> tuple[float, str]:
    """Return the milliseconds that one processor takes for a query over the whole collection, and the arithmetic."""
    measured, millions = rates()[of.search], need.docs / MILLION
    scale = kept * need.query_weights / (measured["kept"] * measured["query_weights"])
    a_passage = _rate(of.fixed) if of.fixed else 0.0
    lexical = millions * (a_passage + measured["value"] * scale)
    arithmetic = f"{millions:,.0f} M × ({a_passage:.3g} + {measured['value']:.3g} × {scale:.2g} ms)"
    if not (need.dense and need.scan_dense):
        return lexical, arithmetic
    *fixed, slope = map(_rate, of.dense)
    return lexical + millions * (sum(fixed) + need.dense * slope), (
        f"{arithmetic} + {millions:,.0f} M × ({sum(fixed):.3g} + {need.dense} × {slope:.3g} ms)"
    )


def _rate(name: str) -> float:
    return float(rates()[name]["value"])


def _size(count: float) -> str:
    for unit, scale in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= scale:
            return f"{count / scale:,.1f} {unit}"
    return f"{count:.0f} B"


def _seconds(ms: float) -> str:
    return f"{ms / 1000:,.1f} s" if ms >= 1000 else f"{ms:,.2f} ms" if ms < 10 else f"{ms:,.0f} ms"


def _days(seconds: float) -> str:
    return f"{seconds / 86_400:,.1f} days" if seconds >= 86_400 else f"{seconds / 3_600:,.1f} h"
