"""Collections of the ir_datasets package, which are named `ir_datasets:NAME` (extra `datasets`)."""

from __future__ import annotations

from typing import Any

from denslice.errors import InputError, MissingExtraError

DATASET_PREFIX = "ir_datasets:"


def is_dataset(name: object) -> bool:
    """Return whether a name has the prefix of ir_datasets."""
    return str(name).startswith(DATASET_PREFIX)


def load_dataset(name: str, part: str) -> Any:
    """Return the dataset of ir_datasets; raise InputError if it lacks the part: docs, queries or qrels."""
    try:
        import ir_datasets
    except ImportError:
        raise MissingExtraError(f"reading {name}", "datasets") from None
    try:
        dataset = ir_datasets.load(name.removeprefix(DATASET_PREFIX))
    except KeyError:
        raise InputError(f"{name}: ir_datasets has no dataset of this name") from None
    if not getattr(dataset, f"has_{part}")():
        raise InputError(f"{name}: has no {part}")
    return dataset
