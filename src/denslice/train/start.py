"""What a run works with, made ready before its first step: model, data, warmed-up head, optimizer, processes."""

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
from denslice.train.config import SETTINGS, TrainConfig
from denslice.train.data import CollectionReader, Examples, Mixed, Pairs, Scored, Source, TrainCollection, read_teacher
from denslice.train.loss import TrainVectors
from denslice.train.mlm import calibrate, warm_up
from denslice.train.negatives import hard_negatives
from denslice.train.optimizer import make_optimizer
from denslice.train.run_log import Log, Watch
from denslice.train.tokens import Padded
from denslice.train.triples import Triples

LOG = "log.jsonl"


class Towers(nn.Module):
    """The model on queries and passages in one pass, as several processes want it."""

    def __init__(self, model: BiEncoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, queries: Padded, passages: Padded) -> tuple[TrainVectors, TrainVectors]:
        """Vectors of B queries and P passages."""
        asked = self.model(queries.ids, queries.mask, queries.words)
        return TrainVectors(*asked), TrainVectors(*self.model(passages.ids, passages.mask, passages.words))


@dataclass(frozen=True)
class Run:
    """Everything the loop moves."""

    config: TrainConfig
    out: Path
    log: Log
    processes: Accelerator
    model: BiEncoder
    towers: Any  # the model as the processes share it
    optimizer: Any
    reader: CollectionReader
    examples: Examples
    dev: TrainCollection | None  # what is measured while training, on the main process
    teacher: BiEncoder | None
    first: int  # steps done already


def start(config: TrainConfig, resume: bool, watch: Watch | None) -> Run:
    """A run ready for its first step, or for the first after its newest checkpoint."""
    torch.manual_seed(config.seed)  # new heads are drawn from it
    processes = Accelerator(cpu=config.device == "cpu", mixed_precision="bf16" if takes_bf16(config) else "no")
    _check_share(config, processes)
    out, is_main = Path(config.output.folder), processes.is_main_process
    log = Log(out / LOG if is_main else None, watch if is_main else None)

    # the model, from the backbone or from the newest checkpoint
    checkpoint = _checkpoint(config, out, resume)
    model = BiEncoder.load(checkpoint or config.backbone, None if checkpoint else config.model).to(processes.device)
    teacher = _teacher_model(config, model)

    # the data; hard negatives are mined by one process and read by all
    reader = CollectionReader(model.tokenizer, model.config)
    with processes.main_process_first():
        examples = _examples(config, model, reader, is_main)
    dev = read_judged(config, reader, config.evaluation.split) if is_main and config.evaluation.every else None
    if is_main:
        out.mkdir(parents=True, exist_ok=True)
        (out / SETTINGS).write_text(config.to_toml(), encoding="utf-8")
    first = checkpoints.step_of(checkpoint) if checkpoint else 0
    log.cut(first if checkpoint else -1)

    # new heads are warmed up once; then the optimizer takes its place
    if checkpoint is None:
        _prepare_heads(config, model, examples, log)
    towers, optimizer = processes.prepare(Towers(model), make_optimizer(model, config.optimizer))
    if checkpoint:
        checkpoints.load_optimizer(checkpoint, optimizer, processes.device)
    elif is_main and config.warmup.steps:
        checkpoints.save(out, 0, model, optimizer, config)  # killed soon after, the run need not warm up again
    return Run(config, out, log, processes, model, towers, optimizer, reader, examples, dev, teacher, first)


def takes_bf16(config: TrainConfig) -> bool:
    """Whether matrices are multiplied in bf16."""
    if config.optimizer.precision == "auto":
        return config.device != "cpu" and torch.cuda.is_available()
    return config.optimizer.precision == "bf16"


def read_judged(config: TrainConfig, reader: CollectionReader, split: str) -> TrainCollection:
    """The collection and queries that are measured on."""
    asked = config.evaluation
    folder = asked.folder or config.data.folder
    if asked.collection and asked.queries and asked.qrels:
        source = Source(Path(asked.collection), Path(asked.queries), Path(asked.qrels))
    elif folder is not None:
        source = Source.of_folder(Path(folder), split)
    else:
        raise InputError("evaluation needs a folder, or a collection, queries and qrels")
    return reader.collection(source, asked.limit, asked.docs)


def _check_share(config: TrainConfig, processes: Accelerator) -> None:
    if config.optimizer.batch % processes.num_processes:
        share = f"which {processes.num_processes} processes cannot share evenly"
        raise InputError(f"optimizer.batch is {config.optimizer.batch}, {share}")


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
    pairs = [
        _pairs(config, Path(folder), model, reader, mine, taught) for folder in data.folders or (str(data.folder),)
    ]
    return Mixed(pairs, config.seed) if data.folders else pairs[0]


def _pairs(
    config: TrainConfig, folder: Path, model: BiEncoder, reader: CollectionReader, mine: bool, taught: Scored | None
) -> Pairs:
    found = reader.collection(Source.of_folder(folder, config.data.split))
    hard = hard_negatives(config, folder, found, model, mine)
    return Pairs(found, hard, config.data.negatives, config.seed, taught)


def _prepare_heads(config: TrainConfig, model: BiEncoder, examples: Examples, log: Log) -> None:
    warmup = config.warmup
    if warmup.steps:
        warm_up(model, examples.texts(), warmup, config.seed, takes_bf16(config), lambda entry: log.write(**entry))
    if warmup.active is not None or warmup.score is not None:
        some = next(examples.batches(0, 64))
        group = len(some.passages) // len(some.queries)
        calibrate(model, list(some.queries), list(some.passages)[::group], warmup.active, warmup.score)


def _teacher_model(config: TrainConfig, model: BiEncoder) -> BiEncoder | None:
    if config.loss.teacher is None or not config.loss.distill:
        return None
    teacher = BiEncoder.load(config.loss.teacher).to(next(model.parameters()).device)
    if teacher.tokenizer.get_vocab() != model.tokenizer.get_vocab():
        raise InputError(f"{config.loss.teacher}: the teacher has another vocabulary than {config.backbone}")
    return teacher.eval().requires_grad_(False)
