"""The share of an index that one GPU holds, and searches over it: the launches of a search, and its results."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from denslice.search.gpu import layout
from denslice.search.gpu.device import Device, Handle
from denslice.search.gpu.layout import BOUNDS, CHUNK, DENSE_OF_CANDIDATES, EVERY_CANDIDATE, EXTRA, QUERY, TILE
from denslice.search.gpu.query_plan import QUERY_FIELDS, QueryPlan
from denslice.search.gpu.upload import GpuSegment
from denslice.search.query import NO_SCORES
from denslice.vectors import Floats, Ints

QUERIES_PER_LAUNCH = 16  # while the GPU searches some queries, the host plans the next ones
BATCH_CANDIDATES = 1 << 17  # candidates that a query of a batch may have; with more, it is searched again alone
INITIAL_KEYS = 1 << 10  # keys that a query may have before the memory is enlarged
MAX_RECORDINGS = 32
ROWS_PER_THREAD = 16  # rows of a tile
POOL_THREADS = 256  # of a block that computes the dense scores of up to as many documents
STRUCT_CODES = {"<f8": "d", "<f4": "f", "<u4": "I", "<u8": "Q"}
RECORD = struct.Struct("<" + "".join(STRUCT_CODES[QUERY[name].str] for name in QUERY_FIELDS))  # QUERY, but faster
FIRST_KEY = QUERY_FIELDS["first_key"]
RESULT_COUNTS = itemgetter(*(QUERY_FIELDS[name] for name in ("flags", "candidates", "finalists", "returned")))


@dataclass(slots=True)
class GpuAnswer:
    """The k best documents, best first, equal scores by position, and those that tie with the k-th."""

    positions: Ints
    lexical: Floats
    dense: Floats  # empty if the query has no dense vector


class GpuShare:
    """Segments on one GPU. A search holds the GPU's turn from `mask` or `start` to `finish`."""

    def __init__(
        self, device: Device, segments: Sequence[tuple[int, GpuSegment]], width: int, vocab: int, rows: int
    ) -> None:
        """Prepare searches over segments, each with the position of its first row. `rows` are those of a section."""
        self.device = device
        self.tile_rows = layout.tile_rows(rows)
        self.width, self.vocab = width, max(1, vocab)
        tiles = [_placed(one.tiles, first) for first, one in segments]
        passage_tiles = _product_tiles(segments, tiles, self.tile_rows)
        self.passage_places = len(passage_tiles) * self.tile_rows  # 0 if each document is one passage
        self.tiles = np.concatenate(tiles) if tiles else np.zeros(0, TILE)
        self.segment_tiles = [one.tiles for _, one in segments]
        self.places = len(self.tiles) * self.tile_rows
        self.threads = min(1024, max(256, self.tile_rows // ROWS_PER_THREAD))
        self.shared = self.tile_rows * 4 + layout.UNITS * 16
        self._memories: dict[bool, list[SearchMemory]] = {True: [], False: []}  # for single queries, and for batches
        self._mask: Handle | None = None
        self._keep = [one.arrays for _, one in segments]
        with device.using():
            resident = max(1, min(device.processor_bytes // (self.shared + 2048), 1536 // self.threads))
            self.launch = device.compile(self.threads, resident, width)
            self.tile_table = device.put(self.tiles.view(np.uint8))
            self.passage_table = device.put(passage_tiles.view(np.uint8)) if self.passage_places else None

    def mask(self, masks: Sequence[npt.NDArray[np.uint8]]) -> Handle | None:
        """Copy the masks of the segments to the GPU, or return None if all are empty and so allow every document."""
        if not any(map(len, masks)):
            return None
        words = [
            layout.packed_mask(mask if len(mask) else np.ones(int(t["count"].sum()), np.uint8), t, self.tile_rows)
            for mask, t in zip(masks, self.segment_tiles, strict=True)
        ]
        device, size = self.device, self.places // 32
        with device.using():
            if self._mask is None:  # always at one address, which recorded launches contain
                self._mask_words, self._mask = device.pinned(size, np.uint32), device.empty(size, np.uint32)
            np.concatenate(words, out=self._mask_words)
            device.copy_in(self._mask, self._mask_words)
            return self._mask

    def start(self, plans: Sequence[QueryPlan], allowed: Handle | None) -> Started:
        """Start the search of similar queries, with exact scores from the GPU, without waiting for its end."""
        results = -(-max(p["k"] for p in plans) // 256) * 256 + 256  # k, and some that tie with the k-th
        memory = self._memory(len(plans), sum(len(p.keys) for p in plans), results)
        memory.write(plans)
        memory.run(len(plans), plans[0], allowed)
        return Started(memory, plans, allowed)

    def finish(self, started: Started) -> list[GpuAnswer]:
        """Wait for a search, and return the best documents of each query."""
        memory, plans = started.memory, started.plans
        memory.wait()
        answers = memory.answers(len(plans))
        return [
            self.finish(self.start([plan], started.allowed))[0] if answer is None else answer
            for plan, answer in zip(plans, answers, strict=True)
        ]

    def candidates(self, plan: QueryPlan, allowed: Handle | None) -> tuple[Ints, Floats, Floats]:
        """Return the candidates of stage one: positions, bounds of their scores, and dense scores if it has any."""
        memory = self._memory(1, len(plan.keys), 1)
        memory.write([plan])
        memory.run(1, plan, allowed, rescoring=False)
        memory.wait()
        record = np.frombuffer(memory.host_results, QUERY)[0]
        with self.device.using():
            keys = np.sort(self.device.get(memory.candidates[: int(record["candidates"])]))[::-1]
            dense = self.device.get(memory.extra) if plan["flags"] & EXTRA else NO_SCORES
        keys = keys[keys >= record["cut"]]
        places = (~keys & 0xFFFFFFFF).astype(np.int64)
        scores = (keys >> 32).astype(np.float64)
        bounds = scores / record["unit"] * (1 + 1e-6) + (float(record["lowest"]) + float(record["unseen"]))
        return self.positions(places), bounds.astype(np.float32), dense[places] if len(dense) else dense

    def _memory(self, queries: int, keys: int, results: int) -> SearchMemory:
        """Return memory for this number of queries that no search uses, enlarged if it was too small."""
        memories, most_queries = self._memories[queries == 1], 1 if queries == 1 else QUERIES_PER_LAUNCH
        found = next((memory for memory in memories if not memory.busy), None)
        if found is None or keys > found.key_room or results > found.results:
            room, most = (found.key_room, found.results) if found else (INITIAL_KEYS * most_queries, 1)
            if found:
                memories.remove(found)
            with self.device.using():
                key_room = max(room, 1 << max(0, keys - 1).bit_length())
                found = SearchMemory(self, most_queries, key_room, max(results, most))
            memories.append(found)
        return found

    def settle(self) -> None:
        """Wait for searches that were started and, because of an error, not finished."""
        for memory in (*self._memories[True], *self._memories[False]):
            if memory.busy:
                memory.wait()

    def positions(self, places: Ints) -> Ints:
        """Return the positions of documents over all segments, from their places on the GPU."""
        tile, row = np.divmod(places, self.tile_rows)
        return self.tiles["first"][tile].astype(np.int64) + row


@dataclass(slots=True)
class Started:
    """A search that a GPU has started."""

    memory: SearchMemory
    plans: Sequence[QueryPlan]
    allowed: Handle | None


class SearchMemory:
    """Memory on a GPU for searches of a number of queries at once, and the recorded launches that use it."""

    def __init__(self, share: GpuShare, queries: int, key_room: int, results: int) -> None:
        self.share, self.device = share, share.device
        self.room = share.places if queries == 1 else min(share.places, BATCH_CANDIDATES)
        self.key_room, self.results = key_room, results
        self.busy, self.done = False, share.device.marker()
        n, device = queries, share.device
        self._make_exchange(n)
        self.table = device.zeros(n * share.vocab, np.float32)
        self.sieves = device.zeros(n * layout.SIEVE // 32, np.uint32)
        self.bins = device.empty(n * 2 * layout.BINS, np.uint32)
        self.scores = device.empty(n * share.places, np.uint32)
        self.extra = device.empty(n * share.places if share.width else 0, np.float32)
        self.products = device.empty(n * share.passage_places, np.float32) if share.passage_places else None
        self.maxima = device.empty(n * (share.places // CHUNK), np.uint32)
        self.candidates, self.finalists = (device.empty(n * self.room, np.uint64) for _ in range(2))
        self.lexical, self.dense = (device.empty(n * self.room, np.float32) for _ in range(2))
        self._recorded: dict[Any, Callable[[], None]] = {}

    def _make_exchange(self, n: int) -> None:
        """Make one piece of memory for queries and results: one copy is enough each way. Records go both ways."""
        sizes = {"vectors": 4 * n * self.share.width, "keys": 4 * self.key_room, "weights": 4 * self.key_room}
        sizes |= {"records": n * QUERY.itemsize}
        sizes |= dict.fromkeys(("positions", "lexical", "dense"), 4 * n * self.results)
        ends = np.cumsum(list(sizes.values())).tolist()
        cuts = {name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)}
        memory = self.device.empty(ends[-1], np.uint8)
        self.on_gpu = {name: memory[cut] for name, cut in cuts.items()}
        first_back = cuts["records"].start
        self.inward, self.outward = memory[: cuts["records"].stop], memory[first_back:]
        self.sent = self.device.pinned(cuts["records"].stop, np.uint8)
        self.back = self.device.pinned(ends[-1] - first_back, np.uint8)
        self.host_records = self.sent[cuts["records"]].data
        self.host_vectors, self.host_weights = (
            self.sent[cuts[name]].view(np.float32) for name in ("vectors", "weights")
        )
        self.host_keys = self.sent[cuts["keys"]].view(np.uint32)
        came = {name: self.back[cut.start - first_back : cut.stop - first_back] for name, cut in cuts.items()}
        self.host_results = came["records"].data
        types = {"positions": np.uint32, "lexical": np.float32, "dense": np.float32}
        self.came: list[Any] = [came[name].view(kind).reshape(n, self.results) for name, kind in types.items()]

    def write(self, plans: Sequence[QueryPlan]) -> None:
        """Write queries to the memory that is copied to the GPU."""
        ends = list(accumulate(len(plan.keys) for plan in plans))
        width = self.share.width
        for at, (plan, end) in enumerate(zip(plans, ends, strict=True)):
            first = end - len(plan.keys)
            record = (*plan.record[:FIRST_KEY], first, *plan.record[FIRST_KEY + 1 :])
            RECORD.pack_into(self.host_records, at * RECORD.size, *record)
            self.host_keys[first:end], self.host_weights[first:end] = plan.keys, plan.weights
            if plan.dense is not None and width:
                self.host_vectors[at * width : at * width + len(plan.dense)] = plan.dense

    def run(self, count: int, like: QueryPlan, allowed: Handle | None, rescoring: bool = True) -> None:
        """Start the search of the queries that were written, which all have the flags of `like`."""
        flags, cut = like["flags"], like["most"] > 0
        which = (count, flags, cut, allowed is not None, rescoring)
        if which not in self._recorded:
            launches = partial(self._launch, count, flags, cut, allowed, rescoring)
            with self.device.using():
                self._record(which, launches)
        self._recorded[which]()
        self.done.set()
        self.busy = True

    def wait(self) -> None:
        """Wait until the search is done."""
        self.done.wait()
        self.busy = False

    def _record(self, which: Any, launches: Callable[[], None]) -> None:
        if len(self._recorded) >= MAX_RECORDINGS:
            self._recorded.clear()
        launches()  # the first run of a kernel loads it, which cannot be recorded
        self.device.wait()
        self._recorded[which] = self.device.recorded(launches)

    def _launch(self, n: int, flags: int, cut: bool, allowed: Handle | None, rescoring: bool) -> None:
        share, device, launch = self.share, self.device, self.share.launch
        tiles, rows, places = share.tile_table, share.tile_rows, share.places
        vectors, keys, weights, queries, *to = self.on_gpu.values()
        device.copy_in(self.inward, self.sent)
        launch("begin", (4, n), 256, (queries, keys, weights, self.table, self.sieves, self.bins, share.vocab), 0)
        if flags & EXTRA:
            self._launch_dense(n)
        given: tuple[Any, ...] = (tiles, queries, keys, weights, self.extra, allowed)
        given += (self.scores, self.maxima, self.bins, rows, places)
        launch("score", (n, len(share.tiles)), share.threads, given, share.shared)
        groups = min(2 * device.processors, -(-places // (CHUNK * 1024)))
        given = (queries, self.scores, self.maxima, self.bins, self.candidates, self.room, places)
        launch("collect", (groups, n), 1024, given, 0)
        if cut:
            launch("cut", (1, n), 1024, (queries, self.candidates, self.room), 0)
        for again in (0, 1) if rescoring else ():
            if again and (cut or flags & (EVERY_CANDIDATE | BOUNDS)):  # all were scored at once
                continue
            given = (tiles, queries, self.sieves, vectors, self.table, self.extra, self.candidates, self.finalists)
            given += (self.lexical, self.dense, self.bins, self.room, rows, places, share.vocab, share.width, again)
            launch("rescore", (max(16, 4 * device.processors // n), n), 256, given, 0)
        given = (tiles, queries, keys, self.table, self.sieves, self.finalists, self.lexical, self.dense, self.bins)
        given += (*to, self.room, self.results, rows, share.vocab)
        launch("order", (max(2, device.processors // (2 * n)), n), 1024, given, 0)
        device.copy_back(self.back, self.outward)

    def _launch_dense(self, n: int) -> None:
        share, queries = self.share, self.on_gpu["records"]
        if self.products is None:
            self._launch_products(n, share.tile_table, share.places, queries, self.extra)
        else:
            self._launch_products(n, share.passage_table, share.passage_places, None, self.products)
            blocks = len(share.tiles) * -(-share.tile_rows // POOL_THREADS)
            given: tuple[Any, ...] = (share.tile_table, queries, self.products, self.extra)
            given += (share.tile_rows, share.places, share.passage_places)
            share.launch("pool", (blocks, n), POOL_THREADS, given, 0)
        share.launch("scale", (1, 1), 64, (queries, n), 0)

    def _launch_products(self, n: int, tiles: Handle, places: int, queries: Handle | None, to: Handle) -> None:
        share, vectors, record = self.share, self.on_gpu["vectors"], QUERY.itemsize
        groups = -(-places // (CHUNK * 8))
        for name, first, count in (("dense_four", 0, n // 4), ("dense_one", n // 4 * 4, n % 4)):
            if count:
                given: tuple[Any, ...] = (tiles, None if queries is None else queries[first * record :])
                given += (vectors[4 * first * share.width :], to[first * places :])
                given += (share.tile_rows, places, share.width)
                share.launch(name, (groups, count), 256, given, 0)

    def answers(self, count: int) -> list[GpuAnswer | None]:
        """Return the results of the queries, with None for a query that had too many candidates for this memory."""
        answers: list[GpuAnswer | None] = []
        for at in range(count):
            record = RECORD.unpack_from(self.host_results, at * RECORD.size)
            flags, candidates, finalists, returned = RESULT_COUNTS(record)
            has_dense = bool(flags & (EXTRA | DENSE_OF_CANDIDATES))
            if candidates > self.room:
                answers.append(None)
            elif finalists > layout.RANKED or returned > self.results:
                answers.append(self._unordered(at, finalists, has_dense))
            else:
                positions, lexical, dense = (part[at, :returned] for part in self.came)
                dense = dense.copy() if has_dense else NO_SCORES
                answers.append(GpuAnswer(positions.astype(np.int64), lexical.copy(), dense))
        return answers

    def _unordered(self, at: int, count: int, has_dense: bool) -> GpuAnswer:
        """Return every finalist unsorted, because there are too many of them or too many ties for the GPU to sort."""
        cut = slice(at * self.room, at * self.room + count)
        with self.device.using():
            keys, lexical, dense = (self.device.get(part[cut]) for part in (self.finalists, self.lexical, self.dense))
        places = (~keys & 0xFFFFFFFF).astype(np.int64)
        return GpuAnswer(self.share.positions(places), lexical, dense if has_dense else NO_SCORES)


def _placed(tiles: npt.NDArray[np.void], first: int) -> npt.NDArray[np.void]:
    placed = tiles.copy()
    placed["first"] += np.uint32(first)
    return placed


def _product_tiles(
    segments: Sequence[tuple[int, GpuSegment]], tiles: Sequence[npt.NDArray[np.void]], rows: int
) -> npt.NDArray[np.void]:
    """Return the tiles of all passages, and write to `tiles` where their products are; none if each row is a passage.

    In a segment whose rows are passages, these are the tiles of rows.
    """
    made, before = [np.zeros(0, TILE)], 0
    if all(one.passage_tiles is None for _, one in segments):
        return made[0]
    for (_, one), ours in zip(segments, tiles, strict=True):
        ours["products"] = (before + np.arange(len(ours)) * (one.passage_tiles is None)) * rows
        made.append(ours if one.passage_tiles is None else one.passage_tiles)
        before += len(made[-1])
    return np.concatenate(made)
