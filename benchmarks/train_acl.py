"""Trains and measures the paper's five models on acl-title-abstract, within a wall-clock budget.

    python benchmarks/train_acl.py DATA BACKBONE WORK [--only splade,dense] [--budget 570] [--together 2]

WORK gets a folder for each run, with its model and log, and results.jsonl, with a line for each model and split. Runs
that the budget stopped go on when the command is repeated. Hard negatives are mined once, by BM25.
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

from denslice.provenance import append_line, commit
from journal import MEASURED, ROOT, read_lines

CONFIGS = ROOT / "configs" / "acl"
MODELS = ("splade-dense", "splade", "unicoil-dense", "unicoil", "dense")  # the longest first
SHORTEST = 45  # seconds that must be left to start a run


@dataclass(frozen=True)
class Job:
    """What all runs have in common."""

    data: Path
    backbone: Path
    work: Path
    negatives: Path
    deadline: float
    steps: int | None


def main() -> None:
    """Mine negatives, train and measure the models, and write the results."""
    given = _arguments()
    began = time.monotonic()
    negatives = given.work / "mined" / "negatives-bm25.jsonl.gz"
    if not negatives.exists():
        mine(given.data, given.backbone, given.work)
    job = Job(given.data, given.backbone, given.work, negatives, began + given.budget, given.steps)
    names = [name for name in MODELS if name in given.only.split(",")]
    with ThreadPoolExecutor(given.together) as pool:
        list(pool.map(lambda name: run(name, job), names))
    collect(names, given.work)
    _say(f"{time.monotonic() - began:.0f} s in all")


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


def run(name: str, job: Job) -> None:
    """Train and measure one model in a process of its own, if enough time is left."""
    left = job.deadline - time.monotonic()
    if left < SHORTEST:
        _say(f"{name}: not started, {max(left, 0):.0f} s are left")
        return
    folder = job.work / name
    folder.mkdir(parents=True, exist_ok=True)
    given = {"data": job.data, "backbone": job.backbone, "out": folder, "negatives": job.negatives, "steps": job.steps}
    options = [part for option, one in given.items() if one is not None for part in (f"--{option}", str(one))]
    command = [sys.executable, "-m", "denslice.train", str(CONFIGS / f"{name}.toml"), "--resume", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with (folder / "output.txt").open("a") as output:
        try:
            status = subprocess.run(command, env=environment, stdout=output, stderr=output, timeout=left).returncode
            _say(f"{name}: exit status {status}; {folder / 'output.txt'} has its output")
        except subprocess.TimeoutExpired:
            _say(f"{name}: stopped, as the budget is spent")


def collect(names: list[str], work: Path) -> None:
    """Write the results of all runs to one file, each with the commit and the median training speed."""
    (work / "results.jsonl").unlink(missing_ok=True)
    for name in names:
        if (work / name / "results.jsonl").exists():
            rates = [
                line["passages_per_s"] for line in read_lines(work / name / "log.jsonl") if "passages_per_s" in line
            ]
            for line in read_lines(work / name / "results.jsonl"):
                speed = {"passages_per_s": round(median(rates), 1)} if rates else {}
                append_line(work / "results.jsonl", {"commit": commit(MEASURED), **line, **speed})
                _say(f"{name}, {line['split']}: {json.dumps(line['measures'])}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("backbone", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--only", default=",".join(MODELS), help="models, with commas between")
    parser.add_argument(
        "--budget", type=float, default=570, help="seconds; runs that are not finished then are stopped"
    )
    parser.add_argument("--together", type=int, default=2, help="runs at a time")
    parser.add_argument("--steps", type=int, help="as of denslice train")
    return parser.parse_args()


if __name__ == "__main__":
    main()
