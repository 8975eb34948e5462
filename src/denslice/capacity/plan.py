"""What a collection will take: disk, memory, machines or GPUs, latency and throughput, from measured rates.

Every figure comes with its arithmetic. The rates, and where and when each was measured, are in rates.json; one that was
measured with an older index format says so.
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

KEPT_BYTES, LOST_BYTES, POSTING_BYTES = 7, 4, 3  # of a weight: posting and row; lost row; posting alone
WIDE_KEYS = 1 << 16  # from so many tokens on a key takes two bytes more
HALF = 2  # bytes of a number of a dense vector
FULL = 0.8  # how much of a memory is used
BUSY = 0.7  # how busy processors are kept
MILLION = 1e6


@dataclass(frozen=True)
class Need:
    """The collection, what is asked of it, and the machines there are; the names are the command's options."""

    docs: float
    weights: float = 120.0  # a passage has, before slicing
    slices: int = 768
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
    scan_dense: bool = True  # every passage's dense vector, and not only those of lexical candidates

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name != "scan_dense":
                number(field.name, getattr(self, field.name), 0, above=field.name not in ("dense", "text"))


class Step(NamedTuple):
    """One figure: what it is, its value, and how it comes about."""

    name: str
    value: str
    arithmetic: str


@dataclass(frozen=True)
class Fleet:
    """What one kind of processor would take."""

    device: str  # "CPU" or "GPU"
    machines: int
    shards: int
    latency: float  # ms
    queries: float  # a second, at most
    memory: float  # bytes, all replicas
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class CapacityPlan:
    """Sizes, and what CPUs and GPUs would take."""

    need: Need
    kept: float
    disk: float  # bytes, once
    steps: tuple[Step, ...]
    cpu: Fleet
    gpu: Fleet

    def to_json(self) -> dict[str, Any]:
        """The plan as a JSON object."""
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
    """The measured rates, each with where and when it was measured, and the index format that was read, if any."""
    told: dict[str, Any] = json.loads((files("denslice.capacity") / "rates.json").read_text(encoding="utf-8"))
    return told


def is_outdated(rate: Mapping[str, Any], index_format: int) -> bool:
    """Whether a rate was measured with an older index format than this one."""
    return rate["index_format"] is not None and rate["index_format"] < index_format


def origin(rate: Mapping[str, Any], index_format: int) -> str:
    """Where and when a rate was measured, and what to think of it where the index format has changed since."""
    told = f"{rate['source']}, {rate['date']}"
    if rate["index_format"] is None:
        return told
    told = f"{told}, index format {rate['index_format']}"
    return f"{told}, older than this version's {index_format}" if is_outdated(rate, index_format) else told


def plan(need: Need) -> CapacityPlan:
    """What the need comes to."""
    kept = kept_weights(need.weights, need.slices)
    disk, steps = _disk(need, kept)
    return CapacityPlan(need, kept, disk, tuple(steps), _cpu(need, kept), _gpu(need, kept))


def kept_weights(weights: float, slices: int) -> float:
    """How many weights a random slicing keeps on average, one in each slice that has any; a learned one keeps more."""
    return float(slices * (1 - (1 - 1 / slices) ** weights))


def lines(plan: CapacityPlan) -> Iterator[str]:
    """The plan for people to read."""
    groups = (("the collection", plan.steps), ("on CPUs", plan.cpu.steps), ("on GPUs", plan.gpu.steps))
    for title, steps in groups:
        yield title
        for step in steps:
            yield f"  {step.name:<22} {step.value:>14}  = {step.arithmetic}"
    yield "rates"
    for name, rate in rates().items():
        yield f"  {name:<22} {rate['value']:>14g}  {rate['unit']}, from {origin(rate, INDEX_FORMAT)}"
    if any(is_outdated(rate, INDEX_FORMAT) for rate in rates().values()):
        yield "Rates of an older index format may be too high or too low; measure them again with benchmarks/."


def _disk(need: Need, kept: float) -> tuple[float, list[Step]]:
    lost, extra = need.weights - kept, 2 if need.vocab > WIDE_KEYS else 0
    fixed = _rate("bytes_a_passage")
    one = kept * (KEPT_BYTES + extra) + lost * (LOST_BYTES + extra) + HALF * need.dense + fixed + need.text
    parts = f"{kept:.0f} × {KEPT_BYTES + extra} + {lost:.0f} lost × {LOST_BYTES + extra} + {need.dense} × {HALF} dense"
    tokens = f"{need.slices} × (1 − (1 − 1/{need.slices})^{need.weights:g}), of {need.weights:g}"
    return need.docs * one, [
        Step("weights kept", f"{kept:.0f}", tokens),
        Step("a passage on disk", _size(one), f"{parts} + {fixed:.0f} + {need.text:.0f} text, bytes"),
        Step("disk", _size(need.docs * one), f"{need.docs:,.0f} × {_size(one)}; replicas read the same files"),
    ]


@dataclass(frozen=True)
class Processor:
    """A kind of processor, and what it was measured to do."""

    device: str
    unit: str  # what works on a shard at a time
    units: int  # of a machine
    memory: float  # GB of a machine
    fixed: str  # names of rates: what every passage costs, whatever the weights, or ""
    search: str
    dense: tuple[str, ...]
    encode: str


def _cpu(need: Need, kept: float) -> Fleet:
    dense = ("cpu_dense_ms_a_million", "cpu_dense_ms_a_million_dimension")
    cores = Processor("CPU", "core", need.cores, need.memory, "", "cpu_ms_a_million", dense, "mini_passages_a_core")
    return _fleet(need, cores, kept, kept * POSTING_BYTES)


def _gpu(need: Need, kept: float) -> Fleet:
    dense = ("gpu_dense_ms_a_million_dimension",)
    cards = Processor(
        "GPU", "GPU", 1, need.gpu_memory, "gpu_ms_a_million", "gpu_ms_a_million_weights", dense, "gpu_passages"
    )
    return _fleet(need, cards, kept, kept * KEPT_BYTES)  # postings, and rows to rescore from


def _fleet(need: Need, of: Processor, kept: float, hot: float) -> Fleet:
    """Machines for the memory, the latency and the throughput that are asked for: whichever needs most."""
    hot += HALF * need.dense if need.scan_dense else 0
    work, told = _work(need, of, kept)
    memory = need.docs * hot * need.replicas
    by_memory = memory / (of.memory * 1e9 * FULL)
    fewest = _fewest_shards(work, need.latency)
    by_latency = fewest * need.replicas / of.units
    by_throughput = need.queries * work / 1000 / BUSY / of.units
    machines = max(need.replicas, math.ceil(max(by_memory, by_latency, by_throughput)))
    shards = max(fewest, machines // need.replicas)
    fixed, each = _rate("ray_ms"), _rate("ray_ms_a_shard")
    latency, most = work / shards + fixed + each * shards, machines * of.units * BUSY / (work / 1000)
    rate = _rate(of.encode)
    encode = need.docs / rate / (machines * of.units)
    has = f"{of.units} cores and " if of.units > 1 else ""
    needs = f"memory {by_memory:.1f}, latency {by_latency:.1f}, {need.queries:g} a second {by_throughput:.1f}"
    needs += f", replicas apart {need.replicas}"
    quick = f"enough for {need.latency:g} ms" if latency <= need.latency else "as quick as one driver can be"
    steps = (
        Step("read by searches", _size(memory), f"{need.docs:,.0f} × {hot:.0f} bytes × {need.replicas} replicas"),
        Step(f"{of.unit} time a query", _seconds(work), told),
        Step("shards", f"{shards:,}", f"{quick}, and at least one a machine and replica"),
        Step(
            "machines" if of.units > 1 else "GPUs",
            f"{machines:,}",
            f"the most of {needs}; each has {has}{of.memory:g} GB, {FULL:.0%} full, {BUSY:.0%} busy",
        ),
        Step("latency", _seconds(latency), f"{_seconds(work)} / {shards:,} + {fixed:.1f} + {shards:,} × {each:.2g} ms"),
        Step("queries a second", f"{most:,.1f}", f"{machines:,} × {of.units} × {BUSY} / {_seconds(work)}"),
        Step("encoding", _days(encode), f"{need.docs:,.0f} / {rate:,.0f} a second / ({machines:,} × {of.units})"),
    )
    return Fleet(of.device, machines, shards, latency, most, memory, steps)


def _fewest_shards(work: float, latency: float) -> int:
    """The fewest n with work / n + Ray's time for n shards within the latency; where no n is, the quickest n."""
    fixed, each = _rate("ray_ms"), _rate("ray_ms_a_shard")
    left = latency - fixed
    square = left**2 - 4 * each * work
    if left <= 0 or square < 0:
        return max(1, round(math.sqrt(work / each)))
    return max(1, math.ceil((left - math.sqrt(square)) / (2 * each)))


def _work(need: Need, of: Processor, kept: float) -> tuple[float, str]:
    """Milliseconds one processor would take for a query over everything, and how they come about."""
    measured, millions = rates()[of.search], need.docs / MILLION
    scale = kept * need.query_weights / (measured["kept"] * measured["query_weights"])
    a_passage = _rate(of.fixed) if of.fixed else 0.0
    lexical = millions * (a_passage + measured["value"] * scale)
    told = f"{millions:,.0f} M × ({a_passage:.3g} + {measured['value']:.3g} × {scale:.2g} ms)"
    if not (need.dense and need.scan_dense):
        return lexical, told
    *fixed, slope = map(_rate, of.dense)
    return lexical + millions * (sum(fixed) + need.dense * slope), (
        f"{told} + {millions:,.0f} M × ({sum(fixed):.3g} + {need.dense} × {slope:.3g} ms)"
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
