"""Checkpoints, from which a run resumes with the same results as without a break.

The learning rate, the order of the data and the random numbers are functions of the step, so a checkpoint holds only
the weights, the optimizer's state and the step. It is written to a temporary folder, which is then renamed.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch

from denslice.encoders.torch.bi_encoder import BiEncoder
from denslice.errors import InputError
from denslice.store.files import sync_folder
from denslice.train.config import CONFIG_FILE, TrainConfig, read_config

STEP_PREFIX = "step-"
STATE = "state.json"
OPTIMIZER = "optimizer.pt"
MAY_CHANGE = ("device", "evaluation", "output")  # sections that may differ when a run resumes


def save(out: Path, step: int, model: BiEncoder, optimizer: Any, config: TrainConfig) -> Path:
    """Write the checkpoint of a step, remove all but the newest `output.keep`, and return its folder."""
    folder = out / f"{STEP_PREFIX}{step:07d}"
    unfinished = _emptied(out / f".{folder.name}.tmp")
    torch.save(optimizer.state_dict(), unfinished / OPTIMIZER)
    examples = step * config.optimizer.accumulate * config.optimizer.batch  # used so far
    (unfinished / STATE).write_text(json.dumps({"step": step, "examples": examples}) + "\n")
    save_model(unfinished, model, config)
    _appear(unfinished, folder)
    for old in _all(out)[: -config.output.keep]:
        shutil.rmtree(old)
    return folder


def save_final(out: Path, model: BiEncoder, config: TrainConfig) -> Path:
    """Write the finished model beside the checkpoints and return its folder."""
    unfinished = _emptied(out / ".model.tmp")
    save_model(unfinished, model, config)
    _appear(unfinished, out / "model")
    return out / "model"


def save_model(folder: Path, model: BiEncoder, config: TrainConfig) -> None:
    """Write the model and the resolved config."""
    model.save(folder)
    (folder / CONFIG_FILE).write_text(config.to_toml(), encoding="utf-8")


def newest(out: Path, config: TrainConfig) -> Path | None:
    """Return the folder of the newest checkpoint, or None. Raise InputError if it was written with another config."""
    found = _all(out)
    if not found:
        return None
    _check_same(found[-1] / CONFIG_FILE, config)
    return found[-1]


def step_of(folder: Path) -> int:
    """Return the number of steps that a checkpoint was written after."""
    return int(json.loads((folder / STATE).read_text())["step"])


def load_optimizer(folder: Path, optimizer: Any, device: torch.device) -> None:
    """Restore the optimizer's state from a checkpoint."""
    optimizer.load_state_dict(torch.load(folder / OPTIMIZER, map_location=device, weights_only=True))


def check_fresh(out: Path) -> None:
    """Raise InputError if the folder holds a training run already."""
    if _all(out) or (out / "model").exists():
        raise InputError(f"{out}: holds a training run already; resume it with --resume, or name another folder")


def _all(out: Path) -> list[Path]:
    return sorted(path for path in out.glob(f"{STEP_PREFIX}*") if path.is_dir())


def _emptied(folder: Path) -> Path:
    if folder.exists():  # a run was killed while it wrote this folder
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return folder


def _appear(unfinished: Path, folder: Path) -> None:
    """Rename the folder once every file is on the disk."""
    for path in [*unfinished.rglob("*"), unfinished]:
        sync_folder(path)  # a file is synced in the same way
    if folder.exists():
        shutil.rmtree(folder)
    unfinished.rename(folder)
    sync_folder(folder.parent)


def _check_same(path: Path, config: TrainConfig) -> None:
    saved = read_config(path)
    for name in TrainConfig.__dataclass_fields__:
        before, now = getattr(saved, name), getattr(config, name)
        if name not in MAY_CHANGE and before != now:
            raise InputError(f"{path}: this run had {name} = {before}, and now it is {now}; name another folder")
