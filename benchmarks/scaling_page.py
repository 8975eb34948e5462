"""The tables of docs/scaling.md: what the cluster benchmark measured, and plans of three sizes.

Run by `python benchmarks/pages.py`.
"""

from __future__ import annotations

import json
from typing import Any

import cluster
from denslice.capacity.plan import CapacityPlan, Need, plan, rates
from journal import RESULTS

SIZES = {"10 million": 10e6, "1 billion": 1e9, "100 billion": 100e9}


def tables() -> dict[str, str]:
    """Each table by its name in the page."""
    return {"cluster": measured(), "plans": plans(), "rates": measured_rates()} | {
        f"plan-{name.replace(' ', '-')}": steps(plan(_need(docs))) for name, docs in SIZES.items()
    }


def measured() -> str:
    """The newest line of each collection and encoder."""
    lines: dict[tuple[str, str], tuple[Any, str]] = {}
    for number, text in enumerate((RESULTS / "cluster.jsonl").read_text(encoding="utf-8").splitlines(), 1):
        line = json.loads(text)
        asked = line["configuration"]
        encoder = asked["encoder"] if asked["texts"] else "ready vectors"
        name = f"{line['figures']['collection']}, {encoder}" if asked["texts"] else "synthetic vectors"
        figures = line["figures"] | {"collection": name}
        lines[asked["texts"] or asked["vectors"], encoder] = figures, f"`benchmarks/results/cluster.jsonl:{number}`"
    told = ", ".join(place for _, place in lines.values())
    return f"{cluster.table([figures for figures, _ in lines.values()])}\n\nFrom {told}."


def plans() -> str:
    """Three sizes side by side, with and without dense vectors."""
    head = ["", *(f"{name}, {kind}" for name in SIZES for kind in ("words", "words and 256 dimensions"))]
    made = [plan(_need(docs, dense)) for docs in SIZES.values() for dense in (0, 256)]
    rows = [
        ["disk", *(_value(one, "steps", "disk") for one in made)],
        *(
            [f"{device}: {name}", *(_value(one, device.lower(), name) for one in made)]
            for device, unit, fleet in (("CPU", "core", "machines"), ("GPU", "GPU", "GPUs"))
            for name in ("read by searches", f"{unit} time a query", fleet, "latency", "queries a second", "encoding")
        ),
    ]
    return "\n".join([_row(head), f"|{' --- |' * len(head)}", *map(_row, rows)])


def steps(made: CapacityPlan) -> str:
    """One plan with its arithmetic."""
    groups = (("", made.steps), ("CPUs: ", made.cpu.steps), ("GPUs: ", made.gpu.steps))
    rows = [[f"{group}{step.name}", step.value, step.arithmetic] for group, some in groups for step in some]
    return "\n".join([_row(["", "", "how"]), "| --- | --- | --- |", *map(_row, rows)])


def measured_rates() -> str:
    """The rates, and where, when and with which index format they were measured."""
    head = ["", "", "from", "on", "index format"]
    rows = [
        [f"{rate['value']:g}", rate["unit"], f"`{rate['source']}`", rate["date"], str(rate["index_format"] or "")]
        for rate in rates().values()
    ]
    return "\n".join([_row(head), f"|{' --- |' * len(head)}", *map(_row, rows)])


def _need(docs: float, dense: int = 256) -> Need:
    return Need(docs, weights=120, slices=256, dense=dense)


def _value(made: CapacityPlan, part: str, name: str) -> str:
    some = made.steps if part == "steps" else getattr(made, part).steps
    return next(step.value for step in some if step.name == name)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
