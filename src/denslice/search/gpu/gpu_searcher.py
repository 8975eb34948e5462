"""GpuSearcher: sends each query to every GPU that has a share of the index, and ranks the results as the CPU does."""

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
from denslice.search.cpu.exact_scores import dense_scores_of, rank, rerank
from denslice.search.cpu.two_stage import rerank_best
from denslice.search.gpu import layout, upload
from denslice.search.gpu.cuda import cuda_devices
from denslice.search.gpu.device import Device, Handle, all_turns
from denslice.search.gpu.gpu_share import QUERIES_PER_LAUNCH, GpuAnswer, GpuShare, Started
from denslice.search.gpu.query_plan import QueryPlan, plan_query
from denslice.search.gpu.upload import GpuSegment
from denslice.search.query import NO_ROWS, NO_SCORES, Found, Mask, QueryVectors, best_of
from denslice.store.segment import Segment
from denslice.vectors import Floats

ON_GPU = OpenOptions("cuda")
NO_ANSWER = GpuAnswer(NO_ROWS, NO_SCORES, NO_SCORES)


class ResidentSegments:
    """The segments on the GPUs, each once for all commits that are searched, until no commit needs it.

    A thread that uploads segments holds `loading`, so that two threads that refresh do not upload them twice.
    """

    def __init__(self) -> None:
        self.loading = Lock()
        self.by_key: WeakValueDictionary[tuple[int, int, str], GpuSegment] = WeakValueDictionary()


class GpuSearcher:
    """Searches the segments of one commit on one or several GPUs. Any number of threads may use it."""

    def __init__(
        self, devices: Sequence[Device], options: OpenOptions = ON_GPU, segments: Sequence[Segment] = ()
    ) -> None:
        """Make a searcher, whose segments `load` uploads."""
        self.devices, self.options, self.segments = tuple(devices), options, tuple(segments)
        self.section_rows = self._section_rows()
        self._known: dict[str, tuple[int, GpuSegment]] = {}  # by name: the number of the GPU, and the segment on it
        self._last: tuple[Sequence[Mask] | None, list[Handle | None]] = None, []
        self._resident = ResidentSegments()

    @classmethod
    def named(cls, options: OpenOptions) -> GpuSearcher:
        """Return a searcher without segments on the GPUs that the options name."""
        return cls(cuda_devices(options.device), options)

    def moved(self, segments: Sequence[Segment], progress: Callable[[int], None] | None = None) -> GpuSearcher:
        """Return a searcher of other segments on the same GPUs. Segments that are there are not uploaded again."""
        searcher = GpuSearcher(self.devices, self.options, segments)
        searcher.section_rows = self.section_rows if self._known else searcher.section_rows
        searcher._known, searcher._resident = dict(self._known), self._resident
        return searcher.load(progress)

    def load(self, progress: Callable[[int], None] | None = None) -> GpuSearcher:
        """Upload the segments that are not on the GPUs yet, while other threads search.

        Raise GpuMemoryError if they do not fit. After an error the GPUs hold the same segments as before.
        """
        with self._resident.loading:
            try:
                self._load(progress)
                return self
            except GpuMemoryError as error:
                reason = str(error)
        self._known = {}
        raise GpuMemoryError(reason)  # not from the error, whose traceback would keep half uploaded segments alive

    def _load(self, progress: Callable[[int], None] | None) -> None:
        placed, known = self._placed(), {}
        for number, device in enumerate(self.devices):
            ours = [s for s, at in zip(self.segments, placed, strict=True) if at == number]
            self._check_fits(number, ours)
            with device.using():
                launch = device.compile(256, 1, self.dimensions)
            for segment in ours:
                key = self._key(number, segment)
                uploaded = self._resident.by_key.get(key)
                if uploaded is None:
                    uploaded = upload.upload_segment(device, launch, segment, self.options.leave_out, self.section_rows)
                    self._resident.by_key[key] = uploaded
                    if progress:
                        progress(segment.rows)
                known[segment.name] = number, uploaded
        self._known = {segment.name: known[segment.name] for segment in self.segments}

    def _key(self, number: int, segment: Segment) -> tuple[int, int, str]:
        """Return the key of a segment on a GPU: the number of the GPU, the rows of sections there, and its name."""
        return number, self.section_rows, segment.name

    def _check_fits(self, number: int, segments: Sequence[Segment]) -> None:
        """Raise GpuMemoryError if a GPU lacks memory to upload the segments it does not hold, and to search all."""
        total: dict[str, int] = {}
        pooled = any(segment.passage_starts is not None for segment in segments)
        for segment in segments:
            sizes = upload.sizes_of(segment, self.options.leave_out, self.section_rows, pooled)
            for name in ("search",) if self._key(number, segment) in self._resident.by_key else sizes:
                total[name] = total.get(name, 0) + sizes[name]
        device = self.devices[number]
        with device.using():
            upload.check_fits(device, dict(sorted(total.items())), len(self.devices))

    def finds_best(self, query: QueryVectors, options: SearchOptions) -> bool:
        """Return whether all weights of the query are used: nothing is pruned on a GPU."""
        return options.is_whole

    def search(self, queries: Sequence[QueryVectors], options: SearchOptions, masks: Sequence[Mask]) -> list[Found]:
        """Return the k best documents of each query, the same as `two_stage.search`."""
        answers = self.answers(queries, options, masks)
        return [rank(self.parts, a.positions, a.lexical, a.dense, options.k) for a in answers]

    def answers(
        self, queries: Sequence[QueryVectors], options: SearchOptions, masks: Sequence[Mask]
    ) -> list[GpuAnswer]:
        """Return the best documents of each query as positions over all segments, before equal scores are sorted."""
        for query in queries:
            self._check(query)
        answers = [NO_ANSWER] * len(queries)
        with all_turns(self.devices):
            shares = self.shares
            try:
                self._answer(queries, options, self._allowed(masks), answers)
            except BaseException:
                for _, share in shares:
                    share.settle()
                raise
        return answers

    def _answer(
        self,
        queries: Sequence[QueryVectors],
        options: SearchOptions,
        allowed: Sequence[Handle | None],
        answers: list[GpuAnswer],
    ) -> None:
        """Write the answer of each query to `answers`. While the GPUs search, the next queries are planned."""
        waiting: deque[tuple[list[int], list[Started]]] = deque()
        for start in range(0, len(queries), QUERIES_PER_LAUNCH):
            chosen = range(start, min(start + QUERIES_PER_LAUNCH, len(queries)))
            for ours, plans in self._planned(queries, chosen, options):
                if self._needs_host(plans[0], options):
                    for at, one in zip(ours, plans, strict=True):
                        answers[at] = self._on_host(queries[at], one, allowed)
                    continue
                started = [share.start(plans, mask) for (_, share), mask in zip(self.shares, allowed, strict=True)]
                waiting.append((ours, started))
                if len(waiting) > 1:
                    self._finish(*waiting.popleft(), answers)
        for one_started in waiting:
            self._finish(*one_started, answers)

    def info(self) -> dict[str, int]:
        """Return how many bytes the GPUs hold, by purpose, and how many postings."""
        uploaded = [one for _, one in self._known.values()]
        sizes = {f"{name}_bytes": sum(one.sizes[name] for one in uploaded) for name in ("postings", "rows", "dense")}
        return sizes | {"postings": sum(one.postings for one in uploaded)}

    @cached_property
    def parts(self) -> Parts:
        """Return the segments as the CPU reads them."""
        return Parts(self.segments)

    @cached_property
    def dimensions(self) -> int:
        """Return the width of the dense vectors on the GPUs, or 0 if there are none."""
        if "dense" in self.options.leave_out or not self.segments or self.segments[0].dense is None:
            return 0
        return int(self.segments[0].dense.shape[1])

    @cached_property
    def maxima(self) -> Floats:
        """Return the largest weight of each key in any segment."""
        maxima = [one.maxima for _, one in self._known.values()]
        largest = np.zeros(max(map(len, maxima), default=0), dtype=np.float32)
        for one in maxima:
            np.maximum(largest[: len(one)], one, out=largest[: len(one)])
        return largest

    @cached_property
    def shares(self) -> list[tuple[list[int], GpuShare]]:
        """Return the share of each GPU that has any segments, and the numbers of these segments."""
        firsts = np.concatenate([[0], np.cumsum([s.rows for s in self.segments])]).tolist()
        width = layout.dense_shape(self.dimensions)[0] if self.dimensions else 0
        made = []
        for number, device in enumerate(self.devices):
            ours = [at for at, s in enumerate(self.segments) if self._known[s.name][0] == number]
            uploaded = [(firsts[at], self._known[self.segments[at].name][1]) for at in ours]
            if uploaded:
                made.append((ours, GpuShare(device, uploaded, width, len(self.maxima), self.section_rows)))
        return made

    def _planned(
        self, queries: Sequence[QueryVectors], chosen: range, options: SearchOptions
    ) -> Iterable[tuple[list[int], list[QueryPlan]]]:
        """Return numbers and plans of queries, grouped by flags, without queries that cannot find anything."""
        alike: dict[tuple[int, bool], tuple[list[int], list[QueryPlan]]] = {}
        for at in chosen:
            made = plan_query(queries[at], options, self.maxima, self.parts.docs)
            if made is not None:
                ours, plans = alike.setdefault((made["flags"], made["most"] > 0), ([], []))
                ours.append(at)
                plans.append(made)
        return alike.values()

    def _needs_host(self, like: QueryPlan, options: SearchOptions) -> bool:
        """Return whether the host rescores: the GPUs have no rows, or several share a limited number of candidates."""
        return ("rows" in self.options.leave_out and options.rerank) or (like["most"] > 0 and len(self.shares) > 1)

    def _finish(self, ours: Sequence[int], started: Sequence[Started], answers: list[GpuAnswer]) -> None:
        parts = [share.finish(one) for (_, share), one in zip(self.shares, started, strict=True)]
        for number, at in enumerate(ours):
            answers[at] = parts[0][number] if len(parts) == 1 else _joined([part[number] for part in parts])

    def _on_host(self, query: QueryVectors, plan: QueryPlan, allowed: Sequence[Handle | None]) -> GpuAnswer:
        """Return the best documents with candidates from the GPUs and exact scores from the rows on the host."""
        parts = [share.candidates(plan, mask) for (_, share), mask in zip(self.shares, allowed, strict=True)]
        positions, bounds, dense = (np.concatenate(column) for column in zip(*parts, strict=True))
        kept = np.argsort(positions)
        if plan["most"]:
            kept = kept[best_of(bounds[kept], plan["most"])]
        positions, bounds, dense = positions[kept], bounds[kept], dense[kept] if len(dense) else dense
        if plan["flags"] & layout.EVERY_CANDIDATE:
            lexical = rerank(self.parts, positions, query)
            return GpuAnswer(positions, lexical, dense_scores_of(self.parts, positions, query, plan["best"]))
        every = np.zeros(self.parts.docs if plan["flags"] & layout.EXTRA else 0, dtype=np.float32)
        every[positions[: len(every)]] = dense
        chosen, lexical = rerank_best(self.parts, positions, bounds, query, every, plan["k"])
        return GpuAnswer(chosen, lexical, every[chosen] if len(every) else NO_SCORES)

    def _allowed(self, masks: Sequence[Mask]) -> list[Handle | None]:
        """Return the masks on the GPUs. The last ones stay there, since most searches have the same filter or none."""
        before, on_gpus = self._last
        if before is not masks and (before is None or any(map(is_not, masks, before))):
            self._last = None, []  # an error must not leave a part of the new masks
            on_gpus = [share.mask([masks[at] for at in ours]) for ours, share in self.shares]
        self._last = masks, on_gpus
        return on_gpus

    def _check(self, query: QueryVectors) -> None:
        if query.dense is None:
            return
        if self.segments and not self.dimensions:
            raise InputError('the GPU holds no dense vectors, because leave_out names them; use mode="lexical"')
        if self.segments and self.dimensions != len(query.dense):
            raise InputError(f"the query has {len(query.dense)} dimensions, the index {self.dimensions}")

    def _placed(self) -> list[int]:
        """Return the GPU of each segment: the one it is on, or the next in order, so that GPUs have equal shares."""
        sizes = np.array([len(s.postings.rows) + layout.passage_count(s) for s in self.segments], dtype=np.float64)
        ends = np.cumsum(sizes)
        share = (ends - sizes / 2) / max(1.0, float(sizes.sum())) * len(self.devices)
        wanted = np.minimum(share.astype(np.int64), len(self.devices) - 1).tolist()
        return [self._known.get(s.name, (at,))[0] for s, at in zip(self.segments, wanted, strict=True)]

    def _section_rows(self) -> int:
        if not self.segments:
            return layout.TILE_ROWS
        lists = sum(len(s.postings.keys) for s in self.segments)
        postings = sum(len(s.postings.rows) for s in self.segments)
        room = min(device.shared_bytes for device in self.devices) - layout.UNITS * 16 - 2048
        return layout.rows_of_sections(self.segments[0].postings.block, lists, postings, room // 4)


def _joined(parts: Sequence[GpuAnswer]) -> GpuAnswer:
    positions = np.concatenate([part.positions for part in parts])
    lexical = np.concatenate([part.lexical for part in parts])
    return GpuAnswer(positions, lexical, np.concatenate([part.dense for part in parts]))
