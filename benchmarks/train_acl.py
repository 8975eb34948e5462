"""Trains and measures the models of configs/acl on acl-title-abstract, several at a time, within a wall-clock budget.

    python benchmarks/train_acl.py DATA BACKBONE WORK [--runs splade:43,dense:43] [--budget 570] [--together 6]

A run is a config and a seed. WORK gets a folder for each, such as splade-43, with its model and log, and results.jsonl,
with a line for each finished run. Repeat the command to go on with runs that the budget stopped: they continue from
their newest checkpoint, and finished ones are not repeated. Options of `denslice train` may follow after `--`. Hard
negatives are mined once, by BM25.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from denslice.cores import cores
from denslice.provenance import append_line
from journal import ROOT, read_lines

CONFIGS = ROOT / "configs" / "acl"
MODELS = ("splade-dense", "splade", "unicoil-dense", "unicoil", "dense")  # the longest first
NARROW = (
    "splade-dense-256",
    "unicoil-dense-256",
    "splade-dense-128",
    "unicoil-dense-128",
)  # as many slices as dimensions
SEEDS = (43, 44, 42)
SHORTEST = 45  # seconds that must be left to start a run
PLACES = ("backbone", "folder", "negatives_from")  # keys of a config that may name folders of this machine


class Planned(NamedTuple):
    """A config of configs/acl and a seed."""

    config: str
    seed: int

    @property
    def name(self) -> str:
        """The name of the run's folder."""
        return f"{self.config}-{self.seed}"


EVERY_RUN = [
    *(Planned(config, seed) for seed in SEEDS[:2] for config in MODELS),
    *(Planned(config, SEEDS[0]) for config in NARROW),
    Planned("splade-free", SEEDS[0]),
    *(Planned(config, SEEDS[2]) for config in MODELS),
]


@dataclass(frozen=True)
class Job:
    """What all runs have in common."""

    data: Path
    backbone: Path
    work: Path
    negatives: Path
    deadline: float
    together: int
    options: list[str]  # of denslice train


def main() -> None:
    """Mine negatives, train and measure the models, and write the results."""
    given = _arguments()
    began = time.monotonic()
    negatives = given.work / "mined" / "negatives-bm25.jsonl.gz"
    if not negatives.exists():
        mine(given.data, given.backbone, given.work)
    job = Job(given.data, given.backbone, given.work, negatives, began + given.budget, given.together, given.options)
    runs = planned(given.runs)
    with ThreadPoolExecutor(given.together) as pool:
        list(pool.map(lambda one: train(one, job), runs))
    collect(given.work)
    _say(f"{time.monotonic() - began:.0f} s in all")


def planned(text: str | None) -> list[Planned]:
    """Return the runs of `CONFIG:SEED,CONFIG:SEED`, each once and in this order, or every run."""
    if text is None:
        return EVERY_RUN
    found = []
    for one in dict.fromkeys(text.split(",")):
        config, _, seed = one.partition(":")
        if not (CONFIGS / f"{config}.toml").exists() or not seed.isdecimal():
            known = ", ".join(sorted(path.stem for path in CONFIGS.glob("*.toml")))
            raise SystemExit(f"--runs has {one!r}, expected CONFIG:SEED with one of {known}")
        found.append(Planned(config, int(seed)))
    return found


def mine(data: Path, backbone: Path, work: Path) -> None:
    """Write BM25's hard negatives of the training queries."""
    from denslice.encoders.torch.bi_encoder import BiEncoder
    from denslice.train.config import read_config
    from denslice.train.data import CollectionReader, Source
    from denslice.train.negatives import hard_negatives

    config = read_config(CONFIGS / "dense.toml", data=str(data), backbone=str(backbone), out=str(work / "mined"))
    model = BiEncoder.load(backbone, config.model)
    collection = CollectionReader(model.tokenizer, model.config).collection(Source.of_folder(data, config.data.split))
    hard_negatives(config, data, collection, model, mine=True)


def train(run: Planned, job: Job) -> None:
    """Train and measure one model in a process of its own, if it is not finished and enough time is left."""
    folder = job.work / run.name
    left = job.deadline - time.monotonic()
    if (folder / "results.jsonl").exists():
        return _say(f"{run.name}: finished before")
    if left < SHORTEST:
        return _say(f"{run.name}: not started, {max(left, 0):.0f} s are left")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "output.txt").open("a") as output:
        try:
            done = subprocess.run(_command(run, job), env=_settings(job), stdout=output, stderr=output, timeout=left)
            _say(f"{run.name}: exit status {done.returncode}; {folder / 'output.txt'} has its output")
        except subprocess.TimeoutExpired:
            _say(f"{run.name}: stopped, as the budget is spent")


def _command(run: Planned, job: Job) -> list[str]:
    given = {"data": job.data, "backbone": job.backbone, "out": job.work / run.name, "negatives": job.negatives}
    options = [part for option, one in given.items() for part in (f"--{option}", str(one))]
    config = [str(CONFIGS / f"{run.config}.toml"), "--seed", str(run.seed)]
    return [sys.executable, "-m", "denslice.train", *config, "--resume", *options, *job.options]


def _settings(job: Job) -> dict[str, str]:
    """Return the environment of a run. Its share of the cores is enough: the work is on the GPU."""
    threads = str(max(1, cores() // job.together))
    path = os.pathsep.join(part for part in (str(ROOT / "src"), os.environ.get("PYTHONPATH")) if part)
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": threads, "NUMBA_NUM_THREADS": threads}


def collect(work: Path) -> None:
    """Write the results of every finished run to one file, each with its seed and the median training speed."""
    (work / "results.jsonl").unlink(missing_ok=True)
    for path in sorted(work.glob("*/results.jsonl")):
        config, _, seed = path.parent.name.rpartition("-")
        logged = read_lines(path.parent / "log.jsonl")
        rates = [line["passages_per_s"] for line in logged if "passages_per_s" in line]
        for line in read_lines(path):
            about = line | {"model": config, "seed": int(seed), "config": _without_places(line["config"])}
            speed = {"passages_per_s": round(median(rates), 1)} if rates else {}
            append_line(work / "results.jsonl", about | speed)
            _say(f"{path.parent.name}, {line['split']}: {json.dumps(line['measures'])}")


def _without_places(config: Any) -> Any:
    """Return a config whose paths are reduced to their last part."""
    if not isinstance(config, dict):
        return config
    short = {key: Path(value).name for key, value in config.items() if key in PLACES and value}
    return {key: _without_places(value) for key, value in config.items()} | short


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("backbone", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--runs", help="CONFIG:SEED, with commas between; the first ones start first")
    parser.add_argument(
        "--budget", type=float, default=570, help="seconds; runs that are not finished then are stopped"
    )
    parser.add_argument("--together", type=int, default=6, help="runs at a time")
    own = sys.argv[1 : sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    return parser.parse_args(own, argparse.Namespace(options=sys.argv[len(own) + 2 :]))


if __name__ == "__main__":
    main()
