"""denslice plan: the arithmetic, and that its rates are the ones measured."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denslice.capacity.plan import Need, kept_weights, lines, origin, plan, rates
from denslice.errors import InputError
from denslice.store.manifest import INDEX_FORMAT

ROOT = Path(__file__).parents[1]


def test_every_rate_is_what_the_line_it_names_says() -> None:
    commits = {Path(rate["source"]).stem: rate["commit"] for rate in rates().values()}
    assert all((ROOT / rate["source"]).exists() for rate in rates().values())
    assert len(commits) >= 4
    assert _module("rates").rates(commits) == rates()


def test_rates_come_from_the_newest_lines_that_measure_them() -> None:
    assert _module("rates").rates() == rates()


def test_every_rate_tells_when_it_was_measured_and_with_which_index_format() -> None:
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", rate["date"]) and rate["commit"] for rate in rates().values())
    without_index = {name for name, rate in rates().items() if rate["index_format"] is None}
    assert without_index == {"ray_ms", "ray_ms_a_shard", "mini_passages_a_core", "gpu_passages"}


def test_a_rate_of_an_older_index_format_is_said_to_be_older() -> None:
    rate = {"source": "it.jsonl", "date": "2026-01-02", "index_format": 2}
    assert origin(rate, 2) == "it.jsonl, 2026-01-02, index format 2"
    assert origin(rate, 3) == "it.jsonl, 2026-01-02, index format 2, older than this version's 3"
    assert origin(rate | {"index_format": None}, 3) == "it.jsonl, 2026-01-02"


def test_a_plan_names_every_rate_of_an_older_index_format() -> None:
    older = [name for name, rate in rates().items() if (rate["index_format"] or INDEX_FORMAT) < INDEX_FORMAT]
    made = plan(Need(docs=1e6))
    assert made.to_json()["outdated_rates"] == older
    assert sum("older than this version's" in line for line in lines(made)) == len(older)
    assert any("measure them again" in line for line in lines(made)) == bool(older)


def test_a_slicing_keeps_one_weight_for_each_slice_that_is_not_empty() -> None:
    assert kept_weights(1, 768) == pytest.approx(1)
    assert kept_weights(2, 2) == pytest.approx(1.5)
    assert kept_weights(120, 256) == pytest.approx(256 * (1 - (255 / 256) ** 120))


def test_without_slices_every_weight_is_kept() -> None:
    made = plan(Need(docs=1e6, weights=120))
    assert made.kept == 120
    assert "= every token" in next(line for line in lines(made) if "weights kept" in line)


def test_sizes_are_the_sum_of_their_parts() -> None:
    made = plan(Need(docs=1e6, weights=100, slices=256, dense=256, text=500))
    kept = kept_weights(100, 256)
    one = 7 * kept + 4 * (100 - kept) + 2 * 256 + rates()["bytes_a_passage"]["value"] + 500
    assert made.disk == pytest.approx(1e6 * one)
    assert made.cpu.memory == pytest.approx(1e6 * (3 * kept + 512) * 2)
    assert made.gpu.memory == pytest.approx(1e6 * (7 * kept + 512) * 2)


def test_words_of_a_large_vocabulary_take_wider_keys() -> None:
    small, large = (plan(Need(docs=1e6, weights=100, vocab=vocab)).disk for vocab in (30_522, 1_000_000))
    assert large - small == pytest.approx(1e6 * 2 * 100)


@given(st.floats(1e3, 1e12), st.floats(1, 1_000), st.sampled_from([0, 256, 768]), st.floats(50, 2_000))
def test_a_plan_keeps_what_it_promises(docs: float, queries: float, dense: int, latency: float) -> None:
    need = Need(docs, dense=dense, queries=queries, latency=latency)
    made = plan(need)
    for fleet, memory in ((made.cpu, need.memory), (made.gpu, need.gpu_memory)):
        assert fleet.queries >= queries * 0.999
        assert fleet.machines >= need.replicas
        told = "enough for" if fleet.latency <= latency else "as quick as one driver can be"
        assert told in next(step.arithmetic for step in fleet.steps if step.name == "shards")
        assert fleet.memory <= fleet.machines * memory * 1e9 * 0.801
    twice = plan(Need(2 * docs, dense=dense, queries=queries, latency=latency))
    assert twice.cpu.machines >= made.cpu.machines
    assert twice.gpu.machines >= made.gpu.machines


def test_dense_scores_of_lexical_candidates_alone_cost_nothing_more() -> None:
    words = plan(Need(docs=1e9))
    fused = plan(Need(docs=1e9, dense=256, scan_dense=False))
    assert fused.cpu.machines == words.cpu.machines
    assert fused.disk > words.disk


def test_bad_needs_are_refused() -> None:
    with pytest.raises(InputError, match="docs must be a number above 0"):
        Need(docs=0)
    with pytest.raises(InputError, match="dense must be a number of 0 or more"):
        Need(docs=1, dense=-1)
    with pytest.raises(InputError, match="docs must be a number above 0, not nan"):
        Need(docs=float("nan"))


def test_the_command_shows_the_arithmetic() -> None:
    options = ["--docs", "10e9", "--weights", "120", "--slices", "256", "--dense", "256"]
    done = subprocess.run([sys.executable, "-m", "denslice", "plan", *options], capture_output=True, text=True)
    assert done.stdout.splitlines() == list(lines(plan(Need(10e9, 120, 256, 256))))
    assert "10,000,000,000 × " in done.stdout
    told = subprocess.run(
        [sys.executable, "-m", "denslice", "plan", *options, "--json"], capture_output=True, text=True
    )
    assert json.loads(told.stdout)["gpu"]["machines"] == plan(Need(10e9, 120, 256, 256)).gpu.machines


def _module(name: str) -> ModuleType:
    """Import a script of benchmarks/."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


def test_a_latency_that_no_number_of_shards_reaches_is_told() -> None:
    made = plan(Need(docs=1e12, latency=50))
    assert made.cpu.latency > 50
    again = plan(Need(docs=1e12, latency=5))
    assert again.cpu.shards == made.cpu.shards  # the quickest there is
