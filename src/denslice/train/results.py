"""results.jsonl: the measures of a finished model, with the config, versions and hardware of the run."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from denslice.train.config import TrainConfig

RESULTS = "results.jsonl"
TRAIN_PACKAGES = ("torch", "transformers", "accelerate")


def append_result(
    out: Path, config: TrainConfig, split: str, queries: int, docs: int, seconds: float, found: Mapping[str, Any]
) -> None:
    """Append one line. `found` holds measures, weights and packed ranks by scoring."""
    line = {
        "model": Path(config.output.folder).name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "hardware": torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or "cpu",
        "versions": {"python": platform.python_version()} | {package: version(package) for package in TRAIN_PACKAGES},
        "split": split,
        "queries": queries,
        "docs": docs,
        "seconds": seconds,
        "config": asdict(config),
        **found,
    }
    with (out / RESULTS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
