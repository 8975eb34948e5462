"""Teaches two bodies to do without common pieces what they do with them, on texts without labels.

Each body learns from itself as it was: its states after each layer, its vector, and how near texts are to each other;
the first one also what it weighs words by. Random pieces stand in for some, so that the rare ones are met too: the
whole bodies have an answer to any text. The tables of pieces stay as they are.
"""

from __future__ import annotations

import math
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from denslice.encoders.word_pieces import SOFTPLUS_ONE
from mini_bodies import TextBody, batches
from mini_join import Centred

FLOOR = 0.02  # added to importances before the logarithm: below it they are all nothing
REPORT = 100  # steps
CHUNK = 50_000  # texts that are cut into pieces at one time
WIDTH = 8  # rows are padded to multiples of it
Ints32 = np.ndarray[Any, np.dtype[np.int32]]
Ints64 = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Lesson:
    """How to teach; configs/join/mini.toml has the settings for mini."""

    vocabulary: int = 0  # pieces that the second body keeps; 0 is all
    pieces: int = 140  # that leave long texts
    after: Sequence[int] = (2, 1)  # so many layers of each body
    steps: int = 9000
    batch_pieces: int = 65_536
    lr: float = 2e-4
    warmup_steps: int = 150
    states: float = 0.3  # weight of the loss on states
    rows: float = 0.5  # of that on similarities
    words: float = 0.2  # of that on importances
    temperature: float = 0.05  # of similarities
    bank: int = 3072  # vectors of other texts that a text is compared with
    noisy_rows: float = 0.3  # share of texts that have random pieces
    noisy_pieces: float = 0.15  # share of their pieces
    table_steps: int = 6000  # of the table of words
    seed: int = 1

    @classmethod
    def read(cls, path: Path) -> Lesson:
        """Read a TOML file."""
        return cls(**tomllib.loads(path.read_text()))


class TwoBodies(nn.Module):
    """A body with a word head, and a second body."""

    def __init__(self, first: TextBody, second: TextBody, head: nn.Module) -> None:
        super().__init__()
        self.first, self.second, self.head = first, second, head

    @property
    def both(self) -> tuple[TextBody, TextBody]:
        """Return the bodies."""
        return self.first, self.second

    def read(self, ids: Sequence[Tensor]) -> tuple[list[list[Tensor]], list[Tensor]]:
        """Return the states after each layer and the vectors, of texts in the pieces of both bodies."""
        kind = ids[0].device.type
        with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
            states = [body.states(one) for body, one in zip(self.both, ids, strict=True)]
        vectors = [body.vectors(some[-1], one) for body, some, one in zip(self.both, states, ids, strict=True)]
        return states, vectors

    def importance(self, last: Tensor) -> Tensor:
        """Return the importance of pieces in a document and in a query, from the first body's last states."""
        found: Tensor = functional.softplus(self.head(last.float()) + SOFTPLUS_ONE)
        return found


class Pieces:
    """Texts in the pieces of both bodies, flat on the device."""

    def __init__(self, bodies: Sequence[TextBody], texts: Sequence[str], device: torch.device) -> None:
        self._flat, self._starts, self._sizes, self._pads = [], [], [], [body.pad for body in bodies]
        lengths = []
        for body in bodies:
            parts = [flat_rows(body.pieces(texts[at : at + CHUNK])) for at in range(0, len(texts), CHUNK)]
            own = np.concatenate([sizes for _, sizes in parts])
            lengths.append(own)
            self._flat.append(torch.from_numpy(np.concatenate([flat for flat, _ in parts])).to(device))
            self._starts.append(torch.from_numpy(np.cumsum(own) - own).to(device))
            self._sizes.append(torch.from_numpy(own).to(device))
        self.lengths = np.maximum(*lengths)

    def rows(self, which: Ints64) -> list[Tensor]:
        """Return texts as padded rows, one tensor for each body."""
        found = []
        for flat, starts, sizes, pad in zip(self._flat, self._starts, self._sizes, self._pads, strict=True):
            at = torch.from_numpy(which).to(flat.device)
            place = torch.arange(-(-int(sizes[at].max()) // WIDTH) * WIDTH, device=flat.device)
            ids = flat[(starts[at, None] + place).clamp(max=len(flat) - 1)].long()
            found.append(torch.where(place < sizes[at, None], ids, pad))
        return found


def flat_rows(rows: Sequence[Sequence[int]]) -> tuple[Ints32, Ints64]:
    """Return all pieces in one array, and how many each row has."""
    sizes = np.array([len(row) for row in rows])
    return np.fromiter(chain.from_iterable(rows), np.int32, int(sizes.sum())), sizes


class Teacher:
    """Teaches a copy of the bodies, which pieces leave, what the whole ones do."""

    def __init__(self, whole: TwoBodies, pupil: TwoBodies, lesson: Lesson, device: torch.device) -> None:
        self.whole = whole.to(device).eval().requires_grad_(False)
        self.pupil = pupil.to(device).train()
        self.lesson, self.device = lesson, device
        if device.type == "cuda":
            torch.backends.cuda.enable_cudnn_sdp(False)  # it plans anew for each new shape
            for body in (*whole.both, *pupil.both):
                body.hasten()
        for body in pupil.both:
            body.body.embeddings.requires_grad_(False)
        self._ordinary = {body.is_roberta: body.ordinary().to(device) for body in whole.both}
        self._moving = [value for value in pupil.parameters() if value.requires_grad]
        self._dice = torch.Generator(device)
        self._dice.manual_seed(lesson.seed)

    @torch.no_grad()
    def prepare(self, pieces: Pieces, sample: Ints64) -> None:
        """Measure centres and variances on a sample of texts, and keep its vectors to compare others with."""
        vectors: list[list[Tensor]] = [[], []]
        moments: list[list[list[Tensor]]] = [[], []]
        weights = []
        for some in batches(pieces.lengths[sample], 2 * self.lesson.batch_pieces):
            ids = pieces.rows(sample[some])
            states, found = self.whole.read(ids)
            for at, (body, one) in enumerate(zip(self.whole.both, ids, strict=True)):
                vectors[at].append(found[at])
                moments[at].append([state[one != body.pad].float().var(0) for state in states[at]])
            weights.append((self.whole.importance(states[0][-1])[ids[0] != self.whole.first.pad] + FLOOR).log())
        self._spread = [[least_spread(torch.stack(one).mean(0)) for one in zip(*side, strict=True)] for side in moments]
        self._weight_spread = torch.cat(weights).var(0)
        joined = [torch.cat(one) for one in vectors]
        self.centred = Centred([one.mean(0) for one in joined], (1.0, 1.0))
        self._bank = self.centred(joined).half()

    def loss(self, ids: Sequence[Tensor]) -> dict[str, Tensor]:
        """Return the parts of the loss of texts in the pieces of both bodies."""
        whole, lesson = self.whole, self.lesson
        noisy = [self._noise(one, body) for one, body in zip(ids, whole.both, strict=True)]
        with torch.no_grad():
            wanted, goals = whole.read(noisy)
            weights = (whole.importance(wanted[0][-1]) + FLOOR).log()
        states, vectors = self.pupil.read(noisy)
        parts = [self.centred.part(one, at) for at, one in enumerate(vectors)]
        targets = [self.centred.part(one, at) for at, one in enumerate(goals)]
        point = sum((1 - (one * other).sum(1)).mean() for one, other in zip(parts, targets, strict=True))
        others = self._bank[torch.randint(len(self._bank), (lesson.bank,), device=self.device, generator=self._dice)]
        rows = row_loss(self.centred(vectors)[:1024], self.centred(goals)[:1024], others.float(), lesson.temperature)
        there = self.pupil.first.staying(noisy[0])
        apart = (self.pupil.importance(states[0][-1]) + FLOOR).log() - weights
        words = (apart[there] ** 2 / self._weight_spread).mean()
        assert isinstance(point, Tensor)
        return {"vector": point, "rows": rows, "states": self._state_loss(states, wanted, noisy), "words": words}

    def teach(self, pieces: Pieces, told: Callable[[str], None], minutes: float | None = None) -> None:
        """Take all steps, or as many as fit into the minutes."""
        lesson, rng = self.lesson, np.random.default_rng(self.lesson.seed)
        optimizer = torch.optim.AdamW(self._moving, lr=lesson.lr, betas=(0.9, 0.98), weight_decay=0.0)
        weights = {"vector": 1.0, "rows": lesson.rows, "states": lesson.states, "words": lesson.words}
        began, waiting = time.monotonic(), batches(pieces.lengths, lesson.batch_pieces, rng)
        recent: list[Tensor] = []
        for step in range(lesson.steps):
            spent = (time.monotonic() - began) / 60
            done = max(step / lesson.steps, 0.0 if minutes is None else spent / minutes)
            if done >= 1:
                break
            which = next(waiting, None)
            if which is None:
                waiting = batches(pieces.lengths, lesson.batch_pieces, rng)
                which = next(waiting)
            rate = min(1.0, (step + 1) / lesson.warmup_steps) * (1 + math.cos(math.pi * done)) / 2
            for group in optimizer.param_groups:
                group["lr"] = lesson.lr * rate
            found = self.loss(pieces.rows(which))
            optimizer.zero_grad(set_to_none=True)
            torch.stack([weights[name] * value for name, value in found.items()]).sum().backward()  # type: ignore[no-untyped-call]
            norm = nn.utils.clip_grad_norm_(self._moving, 1.0)
            optimizer.step()
            recent.append(torch.stack([*(value.detach() for value in found.values()), norm.detach()]))
            if step % REPORT == 0:  # the GPU is waited for only here
                means = torch.stack(recent).mean(0).tolist()
                recent.clear()
                if not all(map(math.isfinite, means)):
                    raise ArithmeticError(f"step {step}: not finite")
                named = ", ".join(
                    f"{name} {value:.4f}" for name, value in zip([*found, "gradient"], means, strict=True)
                )
                told(f"step {step} ({done:.0%}), {spent:.1f} minutes: {named}")

    def _noise(self, ids: Tensor, body: TextBody) -> Tensor:
        """Put random pieces in the place of some."""
        dice, device = self._dice, ids.device
        ordinary = self._ordinary[body.is_roberta]
        rows = torch.rand(len(ids), 1, generator=dice, device=device) < self.lesson.noisy_rows
        hit = rows & (torch.rand(ids.shape, generator=dice, device=device) < self.lesson.noisy_pieces)
        others = ordinary[torch.randint(len(ordinary), ids.shape, generator=dice, device=device)]
        return torch.where(hit & torch.isin(ids, ordinary), others, ids)

    def _state_loss(
        self, states: Sequence[Sequence[Tensor]], wanted: Sequence[Sequence[Tensor]], ids: Sequence[Tensor]
    ) -> Tensor:
        """Return the mean squared error of states, in units of their variance, without those that are never read."""
        found = []
        for at, (body, one) in enumerate(zip(self.pupil.both, ids, strict=True)):
            everything, rest = one != body.pad, body.staying(one)
            read = len(states[at]) - (body.pooling == "cls")
            each = zip(states[at][:read], wanted[at], self._spread[at], strict=False)
            for number, (ours, theirs, spread) in enumerate(each, 1):
                there = rest if body.leaving is not None and number >= body.leaving.after else everything
                found.append(((ours[there].float() - theirs[there].float()) ** 2 / spread).mean())
        return torch.stack(found).mean()


@torch.no_grad()
def vectors_of(two: TwoBodies, pieces: Pieces, sample: Ints64, batch_pieces: int) -> list[Tensor]:
    """Return the vectors of both bodies for some of the texts."""
    parts = [two.read(pieces.rows(sample[some]))[1] for some in batches(pieces.lengths[sample], batch_pieces)]
    return [torch.cat(one) for one in zip(*parts, strict=True)]


def row_loss(ours: Tensor, goals: Tensor, bank: Tensor, temperature: float) -> Tensor:
    """Return how the similarities of texts to each other and to others differ from those they should have."""
    found = torch.cat([ours @ ours.T, ours @ bank.T], 1) / temperature
    wanted = torch.cat([goals @ goals.T, goals @ bank.T], 1) / temperature
    same = wanted > 0.999 / temperature  # itself, in the batch or in the bank
    found, wanted = found.masked_fill(same, -1e4), wanted.masked_fill(same, -1e4)
    return functional.kl_div(found.log_softmax(1), wanted.log_softmax(1), log_target=True, reduction="batchmean")


def least_spread(variance: Tensor) -> Tensor:
    """Return variances by channel, none of which is far below the usual one."""
    return variance.clamp(min=0.1 * float(variance.median()))
