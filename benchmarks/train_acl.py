"""Trains and measures the paper's five models on the stand-in collection, within a wall-clock budget.

    PYTHONPATH=src python benchmarks/train_acl.py DATA BACKBONE OUT [--only splade,dense] [--budget 570] [--together 2]

OUT gets results.jsonl (a line for each model and split), logs.tar.gz (log, config and output of each run) and
table.txt. Weights and checkpoints stay in --work. Negatives are mined once; --negatives names a file mined before.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from journal import ROOT, commit

CONFIGS = ROOT / "configs" / "acl"
MODELS = ("splade-dense", "splade", "unicoil-dense", "unicoil", "dense")  # the longest first
SHORTEST = 45  # seconds left under which no run is started
MEASURES = ("RR@10", "nDCG@10", "R@1000")
PASSED_ON = ("steps", "warmup-steps", "batch", "limit", "docs")
PACKED = ("log.jsonl", "config.toml", "output.txt")


@dataclass(frozen=True)
class Job:
    """What every run has in common."""

    data: Path
    backbone: Path
    work: Path
    negatives: Path
    deadline: float
    options: tuple[str, ...]


def main() -> None:
    arguments = read_arguments()
    began = time.monotonic()
    arguments.out.mkdir(parents=True, exist_ok=True)
    work = arguments.work or Path(tempfile.mkdtemp(prefix="denslice-acl-"))
    negatives = arguments.negatives or mine(arguments.data, arguments.backbone, work)
    if arguments.mine_only:
        shutil.copy(negatives, arguments.out)
        return
    given = {f"--{name}": getattr(arguments, name.replace("-", "_")) for name in PASSED_ON}
    options = tuple(part for name, value in given.items() if value is not None for part in (name, str(value)))
    job = Job(arguments.data, arguments.backbone, work, negatives, began + arguments.budget, options)
    names = [name for name in MODELS if name in (arguments.only or ",".join(MODELS)).split(",")]
    with ThreadPoolExecutor(arguments.together) as pool:
        list(pool.map(lambda name: run(name, job), names))
    lines = collect(names, work, arguments.out)
    table = "\n".join(table_of(lines))
    (arguments.out / "table.txt").write_text(table + "\n")
    print(f"{time.monotonic() - began:.0f} s in all\n{table}")


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("backbone", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", help="models, with commas between")
    parser.add_argument("--budget", type=float, default=570, help="seconds; runs still going then are stopped")
    parser.add_argument("--together", type=int, default=2, help="runs at a time")
    parser.add_argument("--negatives", type=Path)
    parser.add_argument("--mine-only", action="store_true", help="only write the negatives to OUT")
    parser.add_argument("--work", type=Path, help="for weights and checkpoints; a temporary folder otherwise")
    for name in PASSED_ON:
        parser.add_argument(f"--{name}", type=int, help="as of denslice train")
    return parser.parse_args()


def mine(data: Path, backbone: Path, work: Path) -> Path:
    """The file of BM25's hard negatives for the training queries."""
    from denslice.encoders.torch.bi_encoder import BiEncoder
    from denslice.train.config import read_config
    from denslice.train.data import CollectionReader, Source
    from denslice.train.negatives import hard_negatives

    began = time.monotonic()
    config = read_config(CONFIGS / "dense.toml", data=str(data), backbone=str(backbone), out=str(work / "mined"))
    model = BiEncoder.load(backbone, config.model)
    collection = CollectionReader(model.tokenizer, model.config).collection(Source.of_folder(data, config.data.split))
    hard_negatives(config, data, collection, model, mine=True)
    say(f"mined negatives in {time.monotonic() - began:.0f} s")
    return work / "mined" / "negatives-bm25.jsonl.gz"


def run(name: str, job: Job) -> None:
    """Trains and measures one model in a process of its own, if time is left."""
    left = job.deadline - time.monotonic()
    if left < SHORTEST:
        say(f"{name}: not started, {max(left, 0):.0f} s are left")
        return
    folder = job.work / name
    folder.mkdir(parents=True, exist_ok=True)
    given = {"data": job.data, "backbone": job.backbone, "out": folder, "negatives": job.negatives}
    options = [part for option, value in given.items() for part in (f"--{option}", str(value))]
    command = [
        sys.executable,
        "-m",
        "denslice.train",
        str(CONFIGS / f"{name}.toml"),
        "--resume",
        *options,
        *job.options,
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    began = time.monotonic()
    with (folder / "output.txt").open("a") as output:
        try:
            status = subprocess.run(command, env=environment, stdout=output, stderr=output, timeout=left).returncode
            say(
                f"{name}: {'done' if status == 0 else f'FAILED with status {status}'}, {time.monotonic() - began:.0f} s"
            )
        except subprocess.TimeoutExpired:
            say(f"{name}: stopped, as the budget is spent")
    if not (folder / "results.jsonl").exists():
        say("".join((folder / "output.txt").read_text().splitlines(keepends=True)[-15:]))


def collect(names: list[str], work: Path, out: Path) -> list[dict[str, Any]]:
    """Every result in one file, every log in another; the results."""
    lines = []
    with tarfile.open(out / "logs.tar.gz", "w:gz") as logs:
        for name in names:
            for packed in (work / name / file for file in PACKED):
                if packed.exists():
                    logs.add(packed, f"{name}/{packed.name}")
            results = work / name / "results.jsonl"
            lines += [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    lines = [{"commit": commit(), **line} for line in lines]
    (out / "results.jsonl").write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    return lines


def table_of(lines: list[dict[str, Any]]) -> list[str]:
    """One row for each model, split and view."""
    rows = [f"{'model':<15}{'split':<6}{'view':<18}" + "".join(f"{name:>9}" for name in MEASURES)]
    for line in lines:
        for view, found in line["measures"].items():
            numbers = "".join(f"{found[name]:>9.4f}" for name in MEASURES)
            rows.append(f"{line['model']:<15}{line['split']:<6}{view:<18}{numbers}")
    return rows


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
