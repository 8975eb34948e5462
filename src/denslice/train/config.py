"""The configuration of a training run: frozen dataclasses, read from TOML and saved as TOML beside every checkpoint.

Paths are relative to the current folder, not to the folder of the config file.
"""

from __future__ import annotations

import json
import math
import tomllib
import types
from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from denslice.corpus.lines import read_text
from denslice.encoders.model_config import ModelConfig
from denslice.errors import InputError

ConfigSection = TypeVar("ConfigSection")
CONFIG_FILE = "config.toml"  # the resolved config, saved beside each checkpoint


@dataclass(frozen=True)
class DataConfig:
    """Where examples come from: a BEIR `folder`, several `folders`, or MS MARCO `triples`.

    Triples hold texts, or ids that `collection` and `queries` resolve. With several folders, each batch is drawn from
    one of them, more often from one with more queries.
    """

    folder: str | None = None
    folders: tuple[str, ...] = ()
    split: str = "train"
    triples: str | None = None
    collection: str | None = None  # the passages, if the triples hold ids
    queries: str | None = None  # the queries, if the triples hold ids
    negatives: int = 1  # hard negatives for each positive
    negatives_from: str = "bm25"  # "bm25", "model", or a file that an earlier run mined
    depth: int = 30  # hard negatives are drawn from this many best documents
    teacher: str | None = None  # a file of `query document score` lines


@dataclass(frozen=True)
class OptimizerConfig:
    """Optimizer and learning rate. `body_lr=0` freezes the backbone; by default the backbone uses `lr` too."""

    steps: int = 100_000
    batch: int = 96  # queries of a batch over all GPUs; their passages are in-batch negatives
    accumulate: int = 1  # batches in one step
    lr: float = 7e-6
    body_lr: float | None = None
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    warmup_steps: int = 0
    weight_decay: float = 0.0
    clip: float = 1.0
    precision: Literal["auto", "bf16", "fp32"] = "auto"  # auto: bf16 on a GPU, fp32 on a CPU


@dataclass(frozen=True)
class LossConfig:
    """The terms added to the softmax loss of the search score, and the temperature that divides scores."""

    temperature: float = 1.0
    lexical: float = 0.0  # weight of the lexical part's own loss
    dense: float = 0.0
    flops_queries: float = 0.0
    flops_docs: float = 0.0
    flops_steps: int = 0  # steps over which the regulariser grows to its full weight
    distill: float = 0.0
    distill_temperature: float = 1.0
    teacher: str | None = None  # a model folder that scores every pair of the batch


@dataclass(frozen=True)
class WarmupConfig:
    """Masked-language warm-up of a new SPLADE head, and the calibration of its weights afterwards."""

    steps: int = 0
    batch: int = 96  # passages
    lr: float = 5e-4
    body_lr: float = 0.0
    mask: float = 0.15
    active: int | None = None  # target number of weights of a passage; None leaves the head as it is
    score: float | None = None  # target mean score of a query and its positive


@dataclass(frozen=True)
class EvaluationConfig:
    """What is measured. Without a `folder`, or `collection`, `queries` and `qrels`, it is the training folder."""

    folder: str | None = None
    collection: str | None = None
    queries: str | None = None
    qrels: str | None = None
    split: str = "dev"
    every: int = 0  # steps; 0 is never
    final: tuple[str, ...] = ()  # splits measured at the end, with every number of slices
    slices: tuple[int, ...] = (768, 256, 128)
    skip: int = 570
    tokens: int = 32_768  # encoded in one batch, with padding
    limit: int | None = None  # queries of each split
    docs: int | None = None  # documents beside the relevant ones; with fewer, search is faster and easier


@dataclass(frozen=True)
class OutputConfig:
    """The folder that a run writes to, and how often it logs and saves."""

    folder: str = "runs/model"
    log_every: int = 50
    checkpoint_every: int = 1000
    keep: int = 2


@dataclass(frozen=True)
class TrainConfig:
    """A whole training run."""

    model: ModelConfig
    backbone: str = "bert-base-uncased"
    seed: int = 0
    device: Literal["auto", "cpu"] = "auto"
    data: DataConfig = field(default_factory=DataConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    warmup: WarmupConfig = field(default_factory=WarmupConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    output: OutputConfig = field(default_factory=OutputConfig)

    def __post_init__(self) -> None:
        if not 0 < self.loss.temperature < math.inf or not 0 < self.loss.distill_temperature < math.inf:
            raise InputError("loss.temperature and loss.distill_temperature must be above 0")
        for section in ("data", "optimizer", "loss", "warmup", "evaluation", "output"):
            for key, value in vars(getattr(self, section)).items():
                least = int(f"{section}.{key}" in _AT_LEAST_1)
                if isinstance(value, int | float) and not least <= value < math.inf:
                    raise InputError(f"{section}.{key} is {value}, expected at least {least}")
        if sum(map(bool, (self.data.folder, self.data.folders, self.data.triples))) != 1:
            raise InputError("name the training data: one of data.folder, data.folders (BEIR), data.triples (MS MARCO)")
        if self.data.triples and self.data.negatives != 1:
            raise InputError(f"data.negatives is {self.data.negatives}, but a line of triples holds 1")
        if bool(self.data.collection) != bool(self.data.queries):
            raise InputError("triples of ids need both data.collection and data.queries")

    def to_toml(self) -> str:
        """Return the whole config as TOML. Keys whose value is None are left out, because TOML has no null."""
        lines = _entries(vars(self))
        for name, section in vars(self).items():
            if is_dataclass(section):
                lines += ["", f"[{name}]", *_entries(vars(section))]
        return "\n".join(lines) + "\n"


OPTIONS = {  # command line option → key of the config
    "data": "data.folder",
    "negatives": "data.negatives_from",
    "backbone": "backbone",
    "out": "output.folder",
    "steps": "optimizer.steps",
    "warmup_steps": "warmup.steps",
    "batch": "optimizer.batch",
    "limit": "evaluation.limit",
    "docs": "evaluation.docs",
    "seed": "seed",
    "device": "device",
}
_AT_LEAST_1 = (  # every other number of a section may be 0
    "optimizer.steps", "optimizer.batch", "optimizer.accumulate", "data.depth", "warmup.batch", "warmup.active",
    "evaluation.tokens", "evaluation.limit", "output.log_every", "output.checkpoint_every", "output.keep",
)  # fmt: skip


def read_config(path: str | Path, **options: Any) -> TrainConfig:
    """Read the config in a TOML file; command line options override its keys."""
    path = Path(path)
    try:
        table = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: broken TOML: {error}") from None
    for option, value in options.items():
        if value is not None:
            _put(table, OPTIONS[option], value)
    try:
        return _filled(TrainConfig, table, "")
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _put(table: dict[str, Any], name: str, value: Any) -> None:
    section, _, key = name.rpartition(".")
    inner = table.setdefault(section, {}) if section else table
    if isinstance(inner, dict):  # anything else is reported as an error when the table is read
        inner[key] = value


def _filled(kind: type[ConfigSection], table: Mapping[str, Any], place: str) -> ConfigSection:
    """Return the dataclass filled from a table. Raise InputError for an unknown key or a value of another type."""
    types_of = get_type_hints(kind)
    for key in table:
        if key not in types_of:
            raise InputError(f"unknown key {place + key!r}; known here: {', '.join(types_of)}")
    if "model" in types_of and "model" not in table:
        raise InputError("no section [model]; add one that names the heads of the model: lexical, dense or both")
    return kind(**{key: _value(value, types_of[key], place + key) for key, value in table.items()})


def _value(value: Any, wanted: Any, name: str) -> Any:
    if is_dataclass(wanted) and isinstance(wanted, type):
        if not isinstance(value, dict):
            raise InputError(f"{name} is {value!r}, expected a section [{name}]")
        return _filled(wanted, value, f"{name}.")
    for kind in get_args(wanted) if get_origin(wanted) in (Union, types.UnionType) else (wanted,):
        if (fitting := _as(value, kind)) is not None:
            return fitting
    raise InputError(f"{name} is {value!r}, expected {_type_name(wanted)}")


def _as(value: Any, kind: Any) -> Any:
    """Return the value as this type, or None if it has another type."""
    if get_origin(kind) is Literal:
        return value if value in get_args(kind) else None
    if get_origin(kind) is tuple:
        member = get_args(kind)[0]
        fits = isinstance(value, list) and all(type(one) is member for one in value)
        return tuple(value) if fits else None
    if kind is float and type(value) is int:
        return float(value)
    return value if type(value) is kind else None


def _type_name(wanted: Any) -> str:
    if get_origin(wanted) is Literal:
        return " or ".join(repr(choice) for choice in get_args(wanted))
    names = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}
    if get_origin(wanted) is tuple:
        return f"a list, of {names[get_args(wanted)[0]].removeprefix('a ')}s"
    kinds = [kind for kind in get_args(wanted) or (wanted,) if kind is not type(None)]
    return " or ".join(names[kind] for kind in kinds)


def _entries(values: Mapping[str, Any]) -> list[str]:
    plain = {name: value for name, value in values.items() if value is not None and not is_dataclass(value)}
    return [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in plain.items()]
