"""Checkpoints: everything that a run needs to go on as if it had never stopped.

The learning rate, the order of the data and the random numbers of a step are functions of the step, so weights,
the optimizer's state and the step are enough. A checkpoint appears whole, by a rename, or not at all.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch

from denslice.encoders.torch.bi_encoder import BiEncoder
from denslice.errors import InputError
from denslice.train.config import SETTINGS, TrainConfig, read_config

PREFIX = "step-"
STATE = "state.json"
OPTIMIZER = "optimizer.pt"
FREE = ("device", "evaluation", "output")  # what a run that resumes may have otherwise


def save(out: Path, step: int, model: BiEncoder, optimizer: Any, config: TrainConfig) -> Path:
    """Writes the checkpoint of a step and removes the oldest beyond `output.keep`; its folder."""
    folder = out / f"{PREFIX}{step:07d}"
    unfinished = _emptied(out / f".{folder.name}.tmp")
    torch.save(optimizer.state_dict(), unfinished / OPTIMIZER)
    (unfinished / STATE).write_text(json.dumps({"step": step, "examples": _examples(config, step)}) + "\n")
    save_model(unfinished, model, config)
    _appear(unfinished, folder)
    for old in _all(out)[: -config.output.keep]:
        shutil.rmtree(old)
    return folder


def save_final(out: Path, model: BiEncoder, config: TrainConfig) -> Path:
    """Writes the finished model beside the checkpoints; its folder."""
    unfinished = _emptied(out / ".model.tmp")
    save_model(unfinished, model, config)
    _appear(unfinished, out / "model")
    return out / "model"


def save_model(folder: Path, model: BiEncoder, config: TrainConfig) -> None:
    """Writes the model and the resolved config."""
    model.save(folder)
    (folder / SETTINGS).write_text(config.to_toml(), encoding="utf-8")


def newest(out: Path, config: TrainConfig) -> Path | None:
    """The folder of the newest checkpoint, if there is one; it must be of the same config."""
    found = _all(out)
    if not found:
        return None
    _check_same(found[-1] / SETTINGS, config)
    return found[-1]


def step_of(folder: Path) -> int:
    """The number of steps done in a checkpoint."""
    return int(json.loads((folder / STATE).read_text())["step"])


def load_optimizer(folder: Path, optimizer: Any, device: torch.device) -> None:
    """Gives the optimizer the state it had."""
    optimizer.load_state_dict(torch.load(folder / OPTIMIZER, map_location=device, weights_only=True))


def check_fresh(out: Path) -> None:
    """An InputError where the folder holds a run already."""
    if _all(out) or (out / "model").exists():
        raise InputError(f"{out}: holds a training run already; resume it with --resume, or name another folder")


def _all(out: Path) -> list[Path]:
    return sorted(path for path in out.glob(f"{PREFIX}*") if path.is_dir())


def _examples(config: TrainConfig, step: int) -> int:
    """How far in the order of the data a run is after so many steps."""
    return step * config.optimizer.accumulate * config.optimizer.batch


def _emptied(folder: Path) -> Path:
    if folder.exists():  # left by a run that was killed while it wrote
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return folder


def _appear(unfinished: Path, folder: Path) -> None:
    """Renames once every byte is on the disk."""
    for path in [*unfinished.rglob("*"), unfinished]:
        _sync(path)
    if folder.exists():
        shutil.rmtree(folder)
    unfinished.rename(folder)
    _sync(folder.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _check_same(path: Path, config: TrainConfig) -> None:
    saved = read_config(path)
    for name in TrainConfig.__dataclass_fields__:
        before, now = getattr(saved, name), getattr(config, name)
        if name not in FREE and before != now:
            raise InputError(f"{path}: this run had {name} = {before}, and now it is {now}; name another folder")
