"""The training loop, top to bottom: it takes steps, logs, measures and saves checkpoints, then writes the model."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from denslice.encoders.torch.bi_encoder import BiEncoder
from denslice.train import checkpoints
from denslice.train.brute_force import evaluate, scorings
from denslice.train.config import TrainConfig
from denslice.train.loss import TrainVectors, losses, score
from denslice.train.optimizer import set_rate, train_mode
from denslice.train.prefetch import prefetch
from denslice.train.run_log import Watch, append_result
from denslice.train.start import Towers, TrainRun, read_judged, start
from denslice.train.tokens import Padded, padded_texts


class Tensors(NamedTuple):
    """A batch on the device: the queries and passages of this process, and the marks of the whole batch."""

    queries: Padded
    passages: Padded
    relevant: Tensor  # (B, P)
    teacher: Tensor | None  # (B, P)


def train(config: TrainConfig, resume: bool = False, watch: Watch | None = None) -> Path:
    """Train a model and return its folder. `watch` is called with every entry of the log."""
    run = start(config, resume, watch)
    batches = prefetch(_batches(run))
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


def _take_step(run: TrainRun, batches: Iterator[Tensors], step: int) -> dict[str, Tensor]:
    """Take one optimizer step and return the parts of the last batch's loss."""
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


def _losses(run: TrainRun, batch: Tensors, step: int) -> dict[str, Tensor]:
    teacher = batch.teacher if run.teacher is None else _teach(run, run.teacher, batch)
    queries, passages = (_from_all(some, run) for some in run.towers(batch.queries, batch.passages))
    return losses(queries, passages, batch.relevant, teacher, run.config.loss, run.model.config.lam, step)


def _batches(run: TrainRun) -> Iterator[Tensors]:
    settings, device = run.config.optimizer, run.processes.device
    pad = run.model.tokenizer.pad_token_id
    for batch in run.examples.batches(run.first * settings.accumulate * settings.batch, settings.batch):
        mine = batch.share(run.processes.process_index, run.processes.num_processes)
        columns = None if batch.queries.words is None else batch.queries.words.columns()
        marks = torch.from_numpy(batch.relevant).to(device)
        teacher = None if batch.teacher is None else torch.from_numpy(batch.teacher).to(device)
        queries, passages = (padded_texts(some, pad, columns).to(device) for some in (mine.queries, mine.passages))
        yield Tensors(queries, passages, marks, teacher)


def _from_all(vectors: TrainVectors, run: TrainRun) -> TrainVectors:
    """Return the vectors of all processes in the order of the batch; gradients flow back to each process.

    Each process computes the whole loss, so the mean of the processes' gradients is its gradient.
    """
    if run.processes.num_processes == 1:
        return vectors
    return TrainVectors(_joined(vectors.lexical), _joined(vectors.dense))


def _joined(part: Tensor | None) -> Tensor | None:
    from torch.distributed.nn.functional import all_gather

    return None if part is None else torch.cat(all_gather(part.contiguous()))  # type: ignore[no-untyped-call]


def _teach(run: TrainRun, teacher: BiEncoder, batch: Tensors) -> Tensor:
    """Return the teacher's scores of every query and passage (B, P)."""
    with torch.no_grad(), run.processes.autocast():
        queries, passages = (_from_all(some, run) for some in Towers(teacher)(batch.queries, batch.passages))
    return score(queries, passages, teacher.config.lam).searched


def _seed(seed: int, step: int, process: int) -> int:
    return int(np.random.SeedSequence((seed, step, process)).generate_state(1)[0])


# --- log, measures and checkpoints


def _log(run: TrainRun, step: int, parts: dict[str, Tensor], rate: float, steps_per_s: float) -> None:
    terms = {name: float(value) for name, value in parts.items()}
    settings, data = run.config.optimizer, run.config.data
    passages = settings.batch * settings.accumulate * (1 + data.negatives)
    speed = round(passages * steps_per_s, 1)
    run.log.write(step=step, loss=sum(terms.values()), parts=terms, lr=rate, passages_per_s=speed)


def _measures_at(config: TrainConfig, step: int) -> bool:
    """Return whether to measure the dev split after this step. A final split is measured at the end, not twice."""
    every, split = config.evaluation.every, config.evaluation.split
    at_end = step == config.optimizer.steps and split in config.evaluation.final
    return every > 0 and step % every == 0 and not at_end


def _measure_dev(run: TrainRun, step: int) -> None:
    if run.dev is not None:
        options = run.config.evaluation
        found = evaluate(run.model, run.dev, scorings(run.model), options.skip, options.tokens)
        run.log.write(step=step, split=options.split, measures=found["measures"], weights=found["weights"])
    run.processes.wait_for_everyone()


def _save(run: TrainRun, step: int) -> None:
    if run.processes.is_main_process:
        checkpoints.save(run.out, step, run.model, run.optimizer, run.config)
    run.processes.wait_for_everyone()


def _finish(run: TrainRun) -> Path:
    """Save the finished model, measure it on the final splits, and return its folder."""
    if run.processes.is_main_process:
        checkpoints.save_final(run.out, run.model, run.config)
        for split in run.config.evaluation.final:
            _measure(run, split)
    run.processes.wait_for_everyone()
    run.processes.free_memory()
    return run.out / "model"


def _measure(run: TrainRun, split: str) -> None:
    """Measure every scoring of the finished model on one split, and write a line of results.jsonl and of the log."""
    began = time.perf_counter()
    options = run.config.evaluation
    collection = read_judged(run.config, run.reader, split)
    chosen = scorings(run.model, options.slices)
    found: dict[str, Any] = evaluate(run.model, collection, chosen, options.skip, options.tokens)
    seconds = round(time.perf_counter() - began, 1)
    append_result(run.out, run.config, split, len(collection.query_ids), len(collection.doc_ids), seconds, found)
    run.log.write(split=split, measures=found["measures"], weights=found["weights"], seconds=seconds)
