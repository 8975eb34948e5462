"""Search over cards: a query goes to each, and what comes back is ranked as on the CPU."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from operator import is_not
from threading import Lock
from weakref import WeakValueDictionary

import numpy as np

from denslice.errors import GpuMemoryError, InputError
from denslice.options import OpenOptions, SearchOptions
from denslice.search.cpu.addresses import Parts
from denslice.search.cpu.two_stage import dense_scores_of, rank, rerank, rerank_best
from denslice.search.gpu import layout, upload
from denslice.search.gpu.card import NO_DENSE, TOGETHER, Card, GpuAnswer, Started
from denslice.search.gpu.device import Device, Handle, all_turns, cuda_devices
from denslice.search.gpu.layout import EXTRA
from denslice.search.gpu.query_plan import QueryPlan, plan
from denslice.search.gpu.upload import Held
from denslice.search.query import NO_SCORES, Found, Mask, QueryVectors, best_of
from denslice.store.segment import Segment
from denslice.vectors import Floats

Progress = Callable[[int], None]
ON_GPU = OpenOptions("cuda")
NOTHING = GpuAnswer(np.zeros(0, dtype=np.int64), NO_SCORES, NO_DENSE)


class Resident:
    """What the cards hold for all commits of an index that are searched: each segment once, until nobody needs it.

    `loading` is held by the thread that takes segments in, so that two that refresh do not both load them.
    """

    def __init__(self) -> None:
        self.loading = Lock()
        self.held: WeakValueDictionary[tuple[int, int, str], Held] = WeakValueDictionary()  # by `GpuSearcher._key`


class GpuSearcher:
    """An index's segments on one or several cards: one commit's, searched by any number of threads."""

    def __init__(
        self, devices: Sequence[Device], options: OpenOptions = ON_GPU, segments: Sequence[Segment] = ()
    ) -> None:
        """Make a searcher that is ready to load its segments."""
        self.devices, self.options, self.segments = tuple(devices), options, tuple(segments)
        self.section_rows = self._section_rows()
        self._known: dict[str, tuple[int, Held]] = {}  # by folder: the card and what it holds
        self._last: tuple[Sequence[Mask] | None, list[Handle | None]] = None, []
        self._resident = Resident()

    @classmethod
    def named(cls, options: OpenOptions) -> GpuSearcher:
        """Return a searcher on the GPUs that the device's name means, with nothing on them yet."""
        return cls(cuda_devices(options.device), options)

    def moved(self, segments: Sequence[Segment], progress: Progress | None = None) -> GpuSearcher:
        """Return a searcher of other segments on the same GPUs; those that are there already are not loaded again."""
        searcher = GpuSearcher(self.devices, self.options, segments)
        searcher.section_rows = self.section_rows if self._known else searcher.section_rows
        searcher._known, searcher._resident = dict(self._known), self._resident
        return searcher.load(progress)

    def load(self, progress: Progress | None = None) -> GpuSearcher:
        """Takes in what the cards do not hold yet, while others search; GpuMemoryError where it will not fit.

        After an error the cards hold what they held before.
        """
        with self._resident.loading:
            try:
                self._load(progress)
                return self
            except GpuMemoryError as error:
                reason = str(error)
        self._known = {}
        raise GpuMemoryError(reason)  # not from the error: its traceback would keep what was begun on the cards

    def _load(self, progress: Progress | None) -> None:
        placed, known = self._placed(), {}
        for number, device in enumerate(self.devices):
            ours = [s for s, at in zip(self.segments, placed, strict=True) if at == number]
            self._check_fits(number, ours)
            with device.using():
                launch = device.compile(256, 1, self.dimensions)
            for segment in ours:
                key = self._key(number, segment)
                held = self._resident.held.get(key)
                if held is None:
                    held = upload.take_in(device, launch, segment, self.options.leave_out, self.section_rows)
                    self._resident.held[key] = held
                    if progress:
                        progress(segment.rows)
                known[_name(segment)] = number, held
        self._known = {_name(s): known[_name(s)] for s in self.segments}

    def _key(self, number: int, segment: Segment) -> tuple[int, int, str]:
        """What tells a segment on a card from others: the card, how the segment is cut there, and its name."""
        return number, self.section_rows, _name(segment)

    def _check_fits(self, number: int, segments: Sequence[Segment]) -> None:
        """Raises GpuMemoryError where a card lacks memory for the segments it does not hold, and for searching all."""
        total: dict[str, int] = {}
        for segment in segments:
            sizes = upload.sizes_of(segment, self.options.leave_out, self.section_rows)
            for name in ("search",) if self._key(number, segment) in self._resident.held else sizes:
                total[name] = total.get(name, 0) + sizes[name]
        device = self.devices[number]
        with device.using():
            upload.check_fits(device, dict(sorted(total.items())), len(self.devices))

    def search(self, queries: Sequence[QueryVectors], options: SearchOptions, masks: Sequence[Mask]) -> list[Found]:
        """The k best documents of each query, as `two_stage.search` finds them."""
        answers = self.answers(queries, options, masks)
        return [rank(self.parts, a.positions, a.lexical, a.dense, options.k) for a in answers]

    def answers(
        self, queries: Sequence[QueryVectors], options: SearchOptions, masks: Sequence[Mask]
    ) -> list[GpuAnswer]:
        """The same, as positions over all segments: equal scores are not in the order of ids yet."""
        for query in queries:
            self._check(query)
        answers = [NOTHING] * len(queries)
        with all_turns(self.devices):
            cards = self.cards
            try:
                self._answer(queries, options, self._allowed(masks), answers)
            except BaseException:
                for _, card in cards:
                    card.settle()
                raise
        return answers

    def _answer(
        self,
        queries: Sequence[QueryVectors],
        options: SearchOptions,
        allowed: Sequence[Handle | None],
        answers: list[GpuAnswer],
    ) -> None:
        """Writes each query's answer down, some queries being on the cards while the next ones are planned."""
        waiting: deque[tuple[list[int], list[Started]]] = deque()
        for start in range(0, len(queries), TOGETHER):
            for ours, plans in self._planned(queries, range(start, min(start + TOGETHER, len(queries))), options):
                if self._needs_host(plans[0], options):
                    for at, one in zip(ours, plans, strict=True):
                        answers[at] = self._on_host(queries[at], one, allowed)
                    continue
                started = [card.start(plans, mask) for (_, card), mask in zip(self.cards, allowed, strict=True)]
                waiting.append((ours, started))
                if len(waiting) > 1:
                    self._finish(*waiting.popleft(), answers)
        for one_started in waiting:
            self._finish(*one_started, answers)

    def info(self) -> dict[str, int]:
        """Bytes on the cards, by what they are for, and the postings they hold."""
        held = [one for _, one in self._known.values()]
        sizes = {name: sum(one.sizes[name] for one in held) for name in ("postings", "rows", "dense")}
        return {f"{name}_bytes": size for name, size in sizes.items()} | {"postings": sum(one.postings for one in held)}

    @cached_property
    def parts(self) -> Parts:
        """The segments, as the CPU reads them."""
        return Parts(self.segments)

    @cached_property
    def docs(self) -> int:
        """How many rows there are, deleted ones among them."""
        return sum(segment.rows for segment in self.segments)

    @cached_property
    def dimensions(self) -> int:
        """Width of the dense vectors on the cards, 0 where there are none."""
        if "dense" in self.options.leave_out or not self.segments or self.segments[0].dense is None:
            return 0
        return int(self.segments[0].dense.shape[1])

    @cached_property
    def maxima(self) -> Floats:
        """The largest weight of each key in any segment."""
        held = [one.maxima for _, one in self._known.values()]
        largest = np.zeros(max((len(one) for one in held), default=0), dtype=np.float32)
        for one in held:
            np.maximum(largest[: len(one)], one, out=largest[: len(one)])
        return largest

    @cached_property
    def cards(self) -> list[tuple[list[int], Card]]:
        """Each card that holds anything, and the numbers of its segments."""
        firsts = np.concatenate([[0], np.cumsum([s.rows for s in self.segments])]).tolist()
        width = layout.dense_shape(self.dimensions)[0] if self.dimensions else 0
        made = []
        for number, device in enumerate(self.devices):
            ours = [at for at, s in enumerate(self.segments) if self._known[_name(s)][0] == number]
            held = [(firsts[at], self._known[_name(self.segments[at])][1]) for at in ours]
            if held:
                made.append((ours, Card(device, held, width, len(self.maxima), self.section_rows)))
        return made

    def _planned(
        self, queries: Sequence[QueryVectors], chosen: range, options: SearchOptions
    ) -> Iterable[tuple[list[int], list[QueryPlan]]]:
        """Some queries' numbers and plans, those together that are alike; without those that cannot find anything."""
        alike: dict[tuple[int, bool], tuple[list[int], list[QueryPlan]]] = {}
        for at in chosen:
            made = plan(queries[at], options, self.maxima, self.docs)
            if made is not None:
                ours, plans = alike.setdefault((made["flags"], made["most"] > 0), ([], []))
                ours.append(at)
                plans.append(made)
        return alike.values()

    def _needs_host(self, like: QueryPlan, options: SearchOptions) -> bool:
        """Whether exact scores come from the folder: the cards have no rows, or must agree on the best candidates."""
        return ("rows" in self.options.leave_out and options.rerank) or (like["most"] > 0 and len(self.cards) > 1)

    def _finish(self, ours: Sequence[int], started: Sequence[Started], answers: list[GpuAnswer]) -> None:
        parts = [card.finish(one) for (_, card), one in zip(self.cards, started, strict=True)]
        for number, at in enumerate(ours):
            answers[at] = parts[0][number] if len(parts) == 1 else _joined([part[number] for part in parts])

    def _on_host(self, query: QueryVectors, plan: QueryPlan, allowed: Sequence[Handle | None]) -> GpuAnswer:
        """Candidates from the cards, exact scores from the folder's rows: where the cards have none, or must agree."""
        parts = [card.candidates(plan, mask) for (_, card), mask in zip(self.cards, allowed, strict=True)]
        positions, bounds, dense = (np.concatenate(column) for column in zip(*parts, strict=True))
        kept = np.argsort(positions)
        if plan["most"]:
            kept = kept[best_of(bounds[kept], plan["most"])]
        positions, bounds, dense = positions[kept], bounds[kept], dense[kept] if len(dense) else dense
        if plan["flags"] & layout.EVERY_CANDIDATE:
            lexical = rerank(self.parts, positions, query)
            return GpuAnswer(positions, lexical, dense_scores_of(self.parts, positions, query))
        every = np.zeros(self.docs if plan["flags"] & EXTRA else 0, dtype=np.float32)
        every[positions[: len(every)]] = dense
        chosen, lexical = rerank_best(self.parts, positions, bounds, query, every, plan["k"])
        return GpuAnswer(chosen, lexical, every[chosen] if len(every) else NO_DENSE)

    def _allowed(self, masks: Sequence[Mask]) -> list[Handle | None]:
        """The masks on their cards; the last ones stay there, since one filter or none is asked for again and again."""
        before, on_cards = self._last
        if before is not masks and (before is None or any(map(is_not, masks, before))):
            self._last = None, []  # until the new ones are there: an error must not leave half of them
            on_cards = [card.mask([masks[at] for at in ours]) for ours, card in self.cards]
        self._last = masks, on_cards
        return on_cards

    def _check(self, query: QueryVectors) -> None:
        if query.dense is None:
            return
        if self.segments and not self.dimensions:
            raise InputError('the card holds no dense vectors (leave_out names them); mode="lexical" needs none')
        if self.segments and self.dimensions != len(query.dense):
            raise InputError(f"the query has {len(query.dense)} dimensions, the index {self.dimensions}")

    def _placed(self) -> list[int]:
        """The card of each segment: where it is already, or else in order, each card its share of the weights."""
        sizes = np.array([len(s.postings.rows) + s.rows for s in self.segments], dtype=np.float64)
        ends = np.cumsum(sizes)
        share = (ends - sizes / 2) / max(1.0, float(sizes.sum())) * len(self.devices)
        wanted = np.minimum(share.astype(np.int64), len(self.devices) - 1).tolist()
        return [
            self._known[_name(s)][0] if _name(s) in self._known else at
            for s, at in zip(self.segments, wanted, strict=True)
        ]

    def _section_rows(self) -> int:
        if not self.segments:
            return layout.TILE_ROWS
        lists, postings = (
            sum(len(part) for part in parts)
            for parts in zip(*((s.postings.keys, s.postings.rows) for s in self.segments), strict=True)
        )
        room = min(device.shared_bytes for device in self.devices) - layout.UNITS * 16 - 2048
        return layout.rows_of_sections(self.segments[0].postings.block, lists, postings, room // 4)


def _name(segment: Segment) -> str:
    return segment.name


def _joined(parts: Sequence[GpuAnswer]) -> GpuAnswer:
    positions = np.concatenate([part.positions for part in parts])
    lexical = np.concatenate([part.lexical for part in parts])
    return GpuAnswer(positions, lexical, np.concatenate([part.dense for part in parts]))
