"""Preparation of a run before its first step: model, data, warm-up of new heads, optimizer and processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import nn

from denslice.encoders.torch.bi_encoder import BiEncoder
from denslice.errors import InputError
from denslice.train import checkpoints
from denslice.train.config import CONFIG_FILE, TrainConfig
from denslice.train.data import CollectionReader, Examples, Mixed, Pairs, Source, TrainCollection, read_teacher
from denslice.train.loss import TrainVectors
from denslice.train.mlm import CALIBRATION_PAIRS, calibrate, warm_up
from denslice.train.negatives import hard_negatives
from denslice.train.optimizer import make_optimizer
from denslice.train.run_log import RunLog, Watch
from denslice.train.tokens import Padded
from denslice.train.triples import Triples

LOG = "log.jsonl"


class Towers(nn.Module):
    """The model applied to queries and passages in one forward pass, as distributed training requires."""

    def __init__(self, model: BiEncoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, queries: Padded, passages: Padded) -> tuple[TrainVectors, TrainVectors]:
        """Return the vectors of B queries and P passages."""
        asked = self.model(queries.ids, queries.mask, queries.words)
        return TrainVectors(*asked), TrainVectors(*self.model(passages.ids, passages.mask, passages.words))


@dataclass(frozen=True)
class TrainRun:
    """Everything that the loop uses."""

    config: TrainConfig
    out: Path
    log: RunLog
    processes: Accelerator
    model: BiEncoder
    towers: Any  # the model, wrapped for distributed training
    optimizer: Any
    reader: CollectionReader
    examples: Examples
    dev: TrainCollection | None  # measured during training, by the main process
    teacher: BiEncoder | None
    first: int  # steps of earlier runs


def start(config: TrainConfig, resume: bool, watch: Watch | None) -> TrainRun:
    """Return a run that is ready for its first step, or for the first step after its newest checkpoint."""
    torch.manual_seed(config.seed)  # for the initialisation of new heads
    processes = Accelerator(cpu=config.device == "cpu", mixed_precision="bf16" if takes_bf16(config) else "no")
    _check_share(config, processes)
    out, is_main = Path(config.output.folder), processes.is_main_process
    log = RunLog(out / LOG if is_main else None, watch if is_main else None)

    # the model, from the backbone or from the newest checkpoint
    checkpoint = _checkpoint(config, out, resume)
    model = BiEncoder.load(checkpoint or config.backbone, None if checkpoint else config.model).to(processes.device)
    teacher = _teacher_model(config, model)

    # the data; one process mines hard negatives and all read them
    reader = CollectionReader(model.tokenizer, model.config)
    with processes.main_process_first():
        examples = _examples(config, model, reader, is_main)
    dev = read_judged(config, reader, config.evaluation.split) if is_main and config.evaluation.every else None
    if is_main:
        out.mkdir(parents=True, exist_ok=True)
        (out / CONFIG_FILE).write_text(config.to_toml(), encoding="utf-8")
    first = checkpoints.step_of(checkpoint) if checkpoint else 0
    log.cut(first if checkpoint else -1)

    # new heads are warmed up once, before the optimizer is made
    if checkpoint is None:
        _prepare_heads(config, model, examples, log)
    towers, optimizer = processes.prepare(Towers(model), make_optimizer(model, config.optimizer))
    if checkpoint:
        checkpoints.load_optimizer(checkpoint, optimizer, processes.device)
    elif is_main and config.warmup.steps:
        checkpoints.save(out, 0, model, optimizer, config)  # a run that is killed now need not warm up again
    return TrainRun(config, out, log, processes, model, towers, optimizer, reader, examples, dev, teacher, first)


def takes_bf16(config: TrainConfig) -> bool:
    """Return whether matrices are multiplied in bf16."""
    if config.optimizer.precision == "auto":
        return config.device != "cpu" and torch.cuda.is_available()
    return config.optimizer.precision == "bf16"


def read_judged(config: TrainConfig, reader: CollectionReader, split: str) -> TrainCollection:
    """Return the collection and queries that measures are computed on."""
    options = config.evaluation
    folder = options.folder or config.data.folder
    if options.collection and options.queries and options.qrels:
        source = Source(Path(options.collection), Path(options.queries), Path(options.qrels))
    elif folder is not None:
        source = Source.of_folder(Path(folder), split)
    else:
        raise InputError("set evaluation.folder, or evaluation.collection, evaluation.queries and evaluation.qrels")
    return reader.collection(source, options.limit, options.docs)


def _check_share(config: TrainConfig, processes: Accelerator) -> None:
    if config.optimizer.batch % processes.num_processes:
        expected = f"expected a multiple of the {processes.num_processes} processes"
        raise InputError(f"optimizer.batch is {config.optimizer.batch}, {expected}")


def _checkpoint(config: TrainConfig, out: Path, resume: bool) -> Path | None:
    if resume:
        return checkpoints.newest(out, config)
    checkpoints.check_fresh(out)
    return None


def _examples(config: TrainConfig, model: BiEncoder, reader: CollectionReader, mine: bool) -> Examples:
    data = config.data
    if data.triples is not None:
        collection, queries = (None if path is None else Path(path) for path in (data.collection, data.queries))
        return Triples(Path(data.triples), model.tokenizer, model.config, collection, queries)
    taught = None if data.teacher is None else read_teacher(Path(data.teacher))
    pairs = []
    for folder in map(Path, data.folders or (str(data.folder),)):
        found = reader.collection(Source.of_folder(folder, data.split))
        hard = hard_negatives(config, folder, found, model, mine)
        pairs.append(Pairs(found, hard, data.negatives, config.seed, taught))
    return Mixed(pairs, config.seed) if data.folders else pairs[0]


def _prepare_heads(config: TrainConfig, model: BiEncoder, examples: Examples, log: RunLog) -> None:
    warmup = config.warmup
    if warmup.steps:
        warm_up(model, examples.texts(), warmup, config.seed, takes_bf16(config), lambda entry: log.write(**entry))
    if warmup.active is not None or warmup.score is not None:
        some = next(examples.batches(0, CALIBRATION_PAIRS))
        group = len(some.passages) // len(some.queries)
        calibrate(model, list(some.queries), list(some.passages)[::group], warmup.active, warmup.score)


def _teacher_model(config: TrainConfig, model: BiEncoder) -> BiEncoder | None:
    if config.loss.teacher is None or not config.loss.distill:
        return None
    teacher = BiEncoder.load(config.loss.teacher).to(next(model.parameters()).device)
    if teacher.tokenizer.get_vocab() != model.tokenizer.get_vocab():
        raise InputError(f"{config.loss.teacher}: the teacher must have the vocabulary of {config.backbone}")
    return teacher.eval().requires_grad_(False)
