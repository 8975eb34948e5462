"""One card's share of an index, and searches over it: what is launched, in order, and what comes back."""

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
from denslice.search.gpu.query_plan import QueryPlan
from denslice.search.gpu.upload import Held
from denslice.vectors import Floats, Ints

TOGETHER = 16  # queries a launch takes; while the card is at some, the host makes the next ones ready
ROOM = 1 << 17  # candidates a query of several may have; one that has more is searched again by itself
KEYS = 1 << 10  # a query may have, to begin with
GRAPHS = 32  # recordings kept
ROWS_A_THREAD = 16  # of a tile
CHARACTERS = {"<f8": "d", "<f4": "f", "<u4": "I", "<u8": "Q"}
RECORD = struct.Struct("<" + "".join(CHARACTERS[QUERY[name].str] for name in QUERY.names or ()))  # of a query
FIRST_KEY = (QUERY.names or ()).index("first_key")
TOLD = itemgetter(*((QUERY.names or ()).index(name) for name in ("flags", "candidates", "finalists", "returned")))
NO_DENSE: Floats = np.zeros(0, dtype=np.float32)


@dataclass(slots=True)
class GpuAnswer:
    """Positions and both scores: the k best, best first, equal ones by position, and what equals the k-th."""

    positions: Ints
    lexical: Floats
    dense: Floats  # empty where the query has no dense vector


class Card:
    """Segments side by side on one card. Whoever searches holds the card's turn from `mask` or `start` to `finish`."""

    def __init__(self, device: Device, held: Sequence[tuple[int, Held]], width: int, vocab: int, rows: int) -> None:
        """`held` has each segment with the position of its first row; sections have so many `rows`."""
        self.device = device
        self.tile_rows = layout.tile_rows(rows)
        self.width, self.vocab = width, max(1, vocab)
        tiles = [_placed(one.tiles, first) for first, one in held]
        self.tiles = np.concatenate(tiles) if tiles else np.zeros(0, TILE)
        self.segment_tiles = [one.tiles for _, one in held]
        self.places = len(self.tiles) * self.tile_rows
        self.threads = min(1024, max(256, self.tile_rows // ROWS_A_THREAD))
        self.shared = self.tile_rows * 4 + layout.UNITS * 16
        self._spaces: dict[bool, list[Space]] = {True: [], False: []}  # for single queries, and for several
        self._mask: Handle | None = None
        self._keep = [one.arrays for _, one in held]
        with device.using():
            resident = max(1, min(device.processor_bytes // (self.shared + 2048), 1536 // self.threads))
            self.launch = device.compile(self.threads, resident, width)
            self.tile_table = device.put(self.tiles.view(np.uint8))

    def mask(self, masks: Sequence[npt.NDArray[np.uint8]]) -> Handle | None:
        """Which documents may be found, on the card, from a mask for each of its segments; empty ones allow all."""
        if not any(map(len, masks)):
            return None
        words = [
            layout.packed(mask if len(mask) else np.ones(int(tiles["count"].sum()), np.uint8), tiles, self.tile_rows)
            for mask, tiles in zip(masks, self.segment_tiles, strict=True)
        ]
        device, size = self.device, self.places // 32
        with device.using():
            if self._mask is None:  # always in one place: launches are recorded with it
                self._mask_words, self._mask = device.pinned(size, np.uint32), device.empty(size, np.uint32)
            np.concatenate(words, out=self._mask_words)
            device.copy_in(self._mask, self._mask_words)
            return self._mask

    def start(self, plans: Sequence[QueryPlan], allowed: Handle | None) -> Started:
        """Begins to search for queries that are all alike, on a card that has the rows; the host can go on."""
        space = self._space(len(plans), sum(len(p.keys) for p in plans), _rounded_up(max(p["k"] for p in plans)))
        space.write(plans)
        space.run(len(plans), plans[0], allowed)
        return Started(space, plans, allowed)

    def finish(self, started: Started) -> list[GpuAnswer]:
        """The best documents of each query."""
        space, plans = started.space, started.plans
        space.wait()
        answers = space.answers(len(plans))
        return [
            self.finish(self.start([plan], started.allowed))[0] if answer is None else answer
            for plan, answer in zip(plans, answers, strict=True)
        ]

    def candidates(self, plan: QueryPlan, allowed: Handle | None) -> tuple[Ints, Floats, Floats]:
        """Stage one's candidates of a query: positions, bounds of their scores, and dense scores where it has any."""
        space = self._space(1, len(plan.keys), 1)
        space.write([plan])
        space.run(1, plan, allowed, rescoring=False)
        space.wait()
        record = np.frombuffer(space.told, QUERY)[0]
        with self.device.using():
            keys = np.sort(self.device.get(space.candidates[: int(record["candidates"])]))[::-1]
            dense = self.device.get(space.extra) if plan["flags"] & EXTRA else NO_DENSE
        keys = keys[keys >= record["cut"]]
        places = (~keys & 0xFFFFFFFF).astype(np.int64)
        scores = (keys >> 32).astype(np.float64)
        bounds = scores / record["unit"] * (1 + 1e-6) + (float(record["lowest"]) + float(record["unseen"]))
        return self.positions(places), bounds.astype(np.float32), dense[places] if len(dense) else dense

    def _space(self, queries: int, keys: int, results: int) -> Space:
        """Memory to search so many queries in, that no search is using; made anew where it was too small."""
        spaces = self._spaces[queries == 1]
        found = next((space for space in spaces if not space.busy), None)
        if found is None or keys > found.key_room or results > found.results:
            room, most = (found.key_room, found.results) if found else (KEYS * (1 if queries == 1 else TOGETHER), 1)
            if found:
                spaces.remove(found)
            with self.device.using():
                found = Space(self, 1 if queries == 1 else TOGETHER, max(_power(keys), room), max(results, most))
            spaces.append(found)
        return found

    def settle(self) -> None:
        """Waits for searches that were started and that nobody finished, because of an error."""
        for space in (*self._spaces[True], *self._spaces[False]):
            if space.busy:
                space.wait()

    def positions(self, places: Ints) -> Ints:
        """Where documents stand over all segments, from their places on the card."""
        tile, row = np.divmod(places, self.tile_rows)
        return self.tiles["first"][tile].astype(np.int64) + row


@dataclass(slots=True)
class Started:
    """A search a card is at."""

    space: Space
    plans: Sequence[QueryPlan]
    allowed: Handle | None


class Space:
    """Memory for searches of up to so many queries at once, and the launches recorded over it."""

    def __init__(self, card: Card, queries: int, key_room: int, results: int) -> None:
        self.card, self.device = card, card.device
        self.room = card.places if queries == 1 else min(card.places, ROOM)
        self.key_room, self.results = key_room, results
        self.busy, self.done = False, card.device.marker()
        n, device = queries, card.device
        self._make_exchange(n)
        self.table = device.zeros(n * card.vocab, np.float32)
        self.sieves = device.zeros(n * layout.SIEVE // 32, np.uint32)
        self.bins = device.empty(n * 2 * layout.BINS, np.uint32)
        self.scores = device.empty(n * card.places, np.uint32)
        self.extra = device.empty(n * card.places if card.width else 0, np.float32)
        self.maxima = device.empty(n * (card.places // CHUNK), np.uint32)
        self.candidates, self.finalists = (device.empty(n * self.room, np.uint64) for _ in range(2))
        self.lexical, self.dense = (device.empty(n * self.room, np.float32) for _ in range(2))
        self._recorded: dict[Any, Callable[[], None]] = {}

    def _make_exchange(self, n: int) -> None:
        """One piece of memory for all that goes to the card and back: one copy each way. Records go both ways."""
        sizes = {"vectors": 4 * n * self.card.width, "keys": 4 * self.key_room, "weights": 4 * self.key_room}
        sizes |= {"records": n * QUERY.itemsize} | dict.fromkeys(
            ("positions", "lexical", "dense"), 4 * n * self.results
        )
        ends = np.cumsum(list(sizes.values())).tolist()
        cuts = {name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)}
        memory = self.device.empty(ends[-1], np.uint8)
        self.on_card = {name: memory[cut] for name, cut in cuts.items()}
        first_back = cuts["records"].start
        self.inward, self.outward = memory[: cuts["records"].stop], memory[first_back:]
        self.sent = self.device.pinned(cuts["records"].stop, np.uint8)
        self.back = self.device.pinned(ends[-1] - first_back, np.uint8)
        self.asked = self.sent[cuts["records"]].data
        self.host_vectors, self.host_weights = (
            self.sent[cuts[name]].view(np.float32) for name in ("vectors", "weights")
        )
        self.host_keys = self.sent[cuts["keys"]].view(np.uint32)
        came = {name: self.back[cut.start - first_back : cut.stop - first_back] for name, cut in cuts.items()}
        self.told = came["records"].data
        types = {"positions": np.uint32, "lexical": np.float32, "dense": np.float32}
        self.came: list[Any] = [came[name].view(kind).reshape(n, self.results) for name, kind in types.items()]

    def write(self, plans: Sequence[QueryPlan]) -> None:
        """Puts queries where the card will read them."""
        ends = list(accumulate(len(plan.keys) for plan in plans))
        width = self.card.width
        for at, (plan, end) in enumerate(zip(plans, ends, strict=True)):
            first = end - len(plan.keys)
            record = (*plan.record[:FIRST_KEY], first, *plan.record[FIRST_KEY + 1 :])
            RECORD.pack_into(self.asked, at * RECORD.size, *record)
            self.host_keys[first:end], self.host_weights[first:end] = plan.keys, plan.weights
            if plan.dense is not None and width:
                self.host_vectors[at * width : at * width + len(plan.dense)] = plan.dense

    def run(self, count: int, like: QueryPlan, allowed: Handle | None, rescoring: bool = True) -> None:
        """Begins to search for the queries written down, which are all `like` one."""
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
        """Returns when the search is done."""
        self.done.wait()
        self.busy = False

    def _record(self, which: Any, launches: Callable[[], None]) -> None:
        if len(self._recorded) >= GRAPHS:
            self._recorded.clear()
        launches()  # a kernel that runs for the first time is loaded, which cannot be recorded
        self.device.wait()
        self._recorded[which] = self.device.recorded(launches)

    def _launch(self, n: int, flags: int, cut: bool, allowed: Handle | None, rescoring: bool) -> None:
        card, device, launch = self.card, self.device, self.card.launch
        tiles, rows, places = card.tile_table, card.tile_rows, card.places
        vectors, keys, weights, queries, *to = self.on_card.values()
        device.copy_in(self.inward, self.sent)
        launch("begin", (4, n), 256, (queries, keys, weights, self.table, self.sieves, self.bins, card.vocab), 0)
        if flags & EXTRA:
            self._launch_dense(n)
        given: tuple[Any, ...] = (tiles, queries, keys, weights, self.extra, allowed)
        given += (self.scores, self.maxima, self.bins, rows, places)
        launch("score", (n, len(card.tiles)), card.threads, given, card.shared)
        groups = min(2 * device.processors, -(-places // (CHUNK * 1024)))
        given = (queries, self.scores, self.maxima, self.bins, self.candidates, self.room, places)
        launch("collect", (groups, n), 1024, given, 0)
        if cut:
            launch("cut", (1, n), 1024, (queries, self.candidates, self.room), 0)
        for again in (0, 1) if rescoring else ():
            if again and (cut or flags & (EVERY_CANDIDATE | BOUNDS)):  # all were scored at once
                continue
            given = (tiles, queries, self.sieves, vectors, self.table, self.extra, self.candidates, self.finalists)
            given += (self.lexical, self.dense, self.bins, self.room, rows, places, card.vocab, card.width, again)
            launch("rescore", (max(16, 4 * device.processors // n), n), 256, given, 0)
        given = (tiles, queries, keys, self.table, self.sieves, self.finalists, self.lexical, self.dense, self.bins)
        given += (*to, self.room, self.results, rows, card.vocab)
        launch("order", (max(2, device.processors // (2 * n)), n), 1024, given, 0)
        device.copy_back(self.back, self.outward)

    def _launch_dense(self, n: int) -> None:
        card, (vectors, _, _, queries, *_) = self.card, self.on_card.values()
        groups, record = -(-card.places // (CHUNK * 8)), QUERY.itemsize
        for name, first, count in (("dense_four", 0, n // 4), ("dense_one", n // 4 * 4, n % 4)):
            if count:
                given: tuple[Any, ...] = (card.tile_table, queries[first * record :], vectors[4 * first * card.width :])
                given += (self.extra[first * card.places :], card.tile_rows, card.places, card.width)
                card.launch(name, (groups, count), 256, given, 0)
        card.launch("scale", (1, 1), 64, (queries, n), 0)

    def answers(self, count: int) -> list[GpuAnswer | None]:
        """What came back for so many queries; None where one had more candidates than there was room for."""
        answers: list[GpuAnswer | None] = []
        for at in range(count):
            flags, candidates, finalists, returned = TOLD(RECORD.unpack_from(self.told, at * RECORD.size))
            has_dense = bool(flags & (EXTRA | DENSE_OF_CANDIDATES))
            if candidates > self.room:
                answers.append(None)
            elif finalists > layout.RANKED or returned > self.results:
                answers.append(self._unordered(at, finalists, has_dense))
            else:
                positions, lexical, dense = (part[at, :returned] for part in self.came)
                dense = dense.copy() if has_dense else NO_DENSE
                answers.append(GpuAnswer(positions.astype(np.int64), lexical.copy(), dense))
        return answers

    def _unordered(self, at: int, count: int, has_dense: bool) -> GpuAnswer:
        """Every finalist as it lies on the card: too many ties, or too many in all, for the card to put in order."""
        cut = slice(at * self.room, at * self.room + count)
        with self.device.using():
            keys, lexical, dense = (self.device.get(part[cut]) for part in (self.finalists, self.lexical, self.dense))
        places = (~keys & 0xFFFFFFFF).astype(np.int64)
        return GpuAnswer(self.card.positions(places), lexical, dense if has_dense else NO_DENSE)


def _placed(tiles: npt.NDArray[np.void], first: int) -> npt.NDArray[np.void]:
    placed = tiles.copy()
    placed["first"] += np.uint32(first)
    return placed


def _power(count: int) -> int:
    return 1 << max(0, count - 1).bit_length()


def _rounded_up(k: int) -> int:
    """Room for k results and some that equal the last."""
    return -(-k // 256) * 256 + 256
