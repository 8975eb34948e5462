"""The training loop, top to bottom: steps with their log, measures and checkpoints, then the finished model."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from denslice.train import checkpoints
from denslice.train.ahead import ahead
from denslice.train.brute_force import evaluate, views
from denslice.train.config import TrainConfig
from denslice.train.loss import TrainVectors, losses, score
from denslice.train.optimizer import set_rate, train_mode
from denslice.train.results import append_result
from denslice.train.run_log import Watch
from denslice.train.start import Run, read_judged, start
from denslice.train.tokens import Padded, padded_texts


class Tensors(NamedTuple):
    """A batch on the device: this process's queries and passages, and the whole batch's marks."""

    queries: Padded
    passages: Padded
    relevant: Tensor  # (B, P)
    teacher: Tensor | None  # (B, P)


def train(config: TrainConfig, resume: bool = False, watch: Watch | None = None) -> Path:
    """Trains a model and returns the folder it is in; `watch` is shown every line of the log."""
    run = start(config, resume, watch)
    batches = ahead(_batches(run))
    began, done = time.perf_counter(), 0
    for step in range(run.first + 1, config.optimizer.steps + 1):
        rate = set_rate(run.optimizer, config.optimizer, step - 1)
        parts = _take_step(run, batches, step - 1)
        done += 1

        if step % config.output.log_every == 0 or step == config.optimizer.steps:
            _log(run, step, parts, rate, done / (time.perf_counter() - began))
            began, done = time.perf_counter(), 0
        if _measures_at(config, step):
            _measure_dev(run, step)
            began, done = time.perf_counter(), 0
        if step % config.output.checkpoint_every == 0 or step == config.optimizer.steps:
            _save(run, step)
    batches.close()
    return _finish(run)


def _take_step(run: Run, batches: Iterator[Tensors], step: int) -> dict[str, Tensor]:
    """Moves the weights once; the parts of the last batch's loss."""
    settings = run.config.optimizer
    train_mode(run.model, settings)
    torch.manual_seed(_seed(run.config.seed, step, run.processes.process_index))  # dropout
    for batch in range(settings.accumulate):
        is_last = batch + 1 == settings.accumulate
        with nullcontext() if is_last else run.processes.no_sync(run.towers):
            parts = _losses(run, next(batches), step)
            run.processes.backward(torch.stack(list(parts.values())).sum() / settings.accumulate)
    if settings.clip:
        run.processes.clip_grad_norm_(run.towers.parameters(), settings.clip)
    run.optimizer.step()
    run.optimizer.zero_grad()
    return {name: part.detach() for name, part in parts.items()}


def _losses(run: Run, batch: Tensors, step: int) -> dict[str, Tensor]:
    queries, passages = run.towers(batch.queries, batch.passages)
    teacher = batch.teacher if run.teacher is None else _teach(run, batch)
    queries, passages = _from_all(queries, run), _from_all(passages, run)
    return losses(queries, passages, batch.relevant, teacher, run.config.loss, run.model.config.lam, step)


def _batches(run: Run) -> Iterator[Tensors]:
    settings, device = run.config.optimizer, run.processes.device
    pad = run.model.tokenizer.pad_token_id
    for batch in run.examples.batches(run.first * settings.accumulate * settings.batch, settings.batch):
        mine = batch.share(run.processes.process_index, run.processes.num_processes)
        columns = None if batch.queries.words is None else batch.queries.words.columns()
        marks = torch.from_numpy(batch.relevant).to(device)
        teacher = None if batch.teacher is None else torch.from_numpy(batch.teacher).to(device)
        queries, passages = (padded_texts(some, pad, columns).to(device) for some in (mine.queries, mine.passages))
        yield Tensors(queries, passages, marks, teacher)


def _from_all(vectors: TrainVectors, run: Run) -> TrainVectors:
    """The vectors of every process, in the order of the batch; gradients find their way back.

    Each process then has the whole loss, so the processes' mean of its gradients is its gradient.
    """
    if run.processes.num_processes == 1:
        return vectors
    return TrainVectors(_joined(vectors.lexical), _joined(vectors.dense))


def _joined(part: Tensor | None) -> Tensor | None:
    from torch.distributed.nn.functional import all_gather

    return None if part is None else torch.cat(all_gather(part.contiguous()))  # type: ignore[no-untyped-call]


def _teach(run: Run, batch: Tensors) -> Tensor:
    """The teacher's score of every query and passage (B, P)."""
    if run.teacher is None:
        raise ValueError("the run has no teacher")
    with torch.no_grad(), run.processes.autocast():
        queries = _from_all(TrainVectors(*run.teacher(batch.queries.ids, batch.queries.mask, batch.queries.words)), run)
        passages = _from_all(
            TrainVectors(*run.teacher(batch.passages.ids, batch.passages.mask, batch.passages.words)), run
        )
    return score(queries, passages, run.teacher.config.lam).searched


def _seed(seed: int, step: int, process: int) -> int:
    return int(np.random.SeedSequence((seed, step, process)).generate_state(1)[0])


# --- what a run tells and leaves


def _log(run: Run, step: int, parts: dict[str, Tensor], rate: float, steps_per_s: float) -> None:
    told = {name: float(value) for name, value in parts.items()}
    settings, data = run.config.optimizer, run.config.data
    passages = settings.batch * settings.accumulate * (1 + data.negatives)
    speed = round(passages * steps_per_s, 1)
    run.log.write(step=step, loss=sum(told.values()), parts=told, lr=rate, passages_per_s=speed)


def _measures_at(config: TrainConfig, step: int) -> bool:
    """Whether the dev split is measured now; what is measured at the end anyway is not measured twice."""
    every, split = config.evaluation.every, config.evaluation.split
    at_end = step == config.optimizer.steps and split in config.evaluation.final
    return every > 0 and step % every == 0 and not at_end


def _measure_dev(run: Run, step: int) -> None:
    if run.dev is not None:
        asked = run.config.evaluation
        found = evaluate(run.model, run.dev, views(run.model), asked.skip, asked.tokens)
        run.log.write(step=step, split=asked.split, measures=found["measures"], weights=found["weights"])
    run.processes.wait_for_everyone()


def _save(run: Run, step: int) -> None:
    if run.processes.is_main_process:
        checkpoints.save(run.out, step, run.model, run.optimizer, run.config)
    run.processes.wait_for_everyone()


def _finish(run: Run) -> Path:
    """The folder of the finished model, measured."""
    if run.processes.is_main_process:
        checkpoints.save_final(run.out, run.model, run.config)
        for split in run.config.evaluation.final:
            _measure(run, split)
    run.processes.wait_for_everyone()
    run.processes.free_memory()
    return run.out / "model"


def _measure(run: Run, split: str) -> None:
    """Every view of the finished model on one split, as a line of results.jsonl and of the log."""
    began = time.perf_counter()
    asked = run.config.evaluation
    collection = read_judged(run.config, run.reader, split)
    found: dict[str, Any] = evaluate(run.model, collection, views(run.model, asked.slices), asked.skip, asked.tokens)
    seconds = round(time.perf_counter() - began, 1)
    append_result(run.out, run.config, split, len(collection.query_ids), len(collection.doc_ids), seconds, found)
    run.log.write(split=split, measures=found["measures"], weights=found["weights"], seconds=seconds)
