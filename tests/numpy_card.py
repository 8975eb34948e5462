"""A card made of numpy: the kernels of kernels.cu as plain definitions, over the same arrays, where there is no GPU.

Everything a kernel reaches through an address is reached through it here too.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from denslice.errors import GpuMemoryError
from denslice.search.gpu import layout
from denslice.search.gpu.device import Turn
from denslice.search.gpu.layout import (
    BINS,
    BOUNDS,
    CHUNK,
    DENSE_OF_CANDIDATES,
    ENTRY,
    EVERY_CANDIDATE,
    EXTRA,
    LARGEST_SCORE,
    QUERY,
    SIEVE,
    TILE,
)

Grid = tuple[int, int]
LEVELS = 255.0
WARP = 32


class NumpyDevice:
    """Arrays of the host, and kernels that run when they are launched.

    It has so much `free` memory, and raises where two threads use it at once or one uses it outside of its turn.
    """

    name = "numpy"
    processors = 2
    shared_bytes = 96 << 10
    processor_bytes = 100 << 10

    def __init__(self, free: int = 1 << 40) -> None:
        self.free = free
        self.turn = Turn()
        self._inside: list[int] = []  # threads, once for each time they entered

    def using(self) -> AbstractContextManager[None]:
        return self._entered()

    @contextmanager
    def _entered(self) -> Iterator[None]:
        with self.turn:
            self._inside.append(threading.get_ident())
            try:
                self._check_alone()
                yield
            finally:
                self._inside.remove(threading.get_ident())

    def _check_alone(self) -> None:
        if set(self._inside) - {threading.get_ident()}:
            raise RuntimeError("two threads are inside of one GPU")

    def free_bytes(self) -> int:
        self._check()
        return self.free

    def put(self, array: np.ndarray) -> np.ndarray:
        with self.using():
            return self._taken(np.array(array))

    def empty(self, shape: Any, dtype: Any) -> np.ndarray:
        array = self.zeros(shape, dtype)
        array.reshape(-1).view(np.uint8)[:] = 0xA5  # what nobody wrote must not be taken for nothing
        return array

    def zeros(self, shape: Any, dtype: Any) -> np.ndarray:
        self._check()
        return self._taken(np.zeros(shape, dtype))

    def pinned(self, shape: Any, dtype: Any) -> np.ndarray:
        self._check()
        return np.zeros(shape, dtype)

    def get(self, handle: np.ndarray) -> np.ndarray:
        self._check()
        return handle.copy()

    def copy_in(self, handle: np.ndarray, array: np.ndarray) -> None:
        self._check()
        handle[:] = array

    def copy_back(self, to: np.ndarray, handle: np.ndarray) -> None:
        self._check()
        to[:] = handle

    def address(self, handle: np.ndarray | None) -> int:
        return 0 if handle is None else handle.ctypes.data

    def running_sum(self, handle: np.ndarray) -> np.ndarray:
        self._check()
        return self._taken(np.concatenate([[0], np.cumsum(handle)]).astype(np.uint32))

    def compile(self, threads: int, resident: int, dimensions: int) -> Callable[..., None]:
        self._check()
        assert threads % WARP == 0
        assert threads * resident <= 2048
        return self._launch

    def _launch(self, name: str, grid: Grid, threads: int, arguments: tuple[Any, ...], shared: int) -> None:
        self._check()
        assert all(0 < size < 2**31 for size in grid)
        assert shared <= self.shared_bytes
        KERNELS[name](grid, *arguments)
        self._check()

    def recorded(self, work: Callable[[], None]) -> Callable[[], None]:
        self._check()
        return work

    def wait(self) -> None:
        self._check()

    def marker(self) -> NumpyDevice:
        return self

    def set(self) -> None:
        self._check()

    def _check(self) -> None:
        self.turn.check()
        self._check_alone()

    def _taken(self, array: np.ndarray) -> np.ndarray:
        """The array, its memory being the device's for as long as it lives."""
        if array.nbytes > self.free:
            raise GpuMemoryError(f"numpy has {self.free} bytes free, {array.nbytes} are asked for")
        self.free -= array.nbytes
        weakref.finalize(array, self._give_back, array.nbytes)
        return array

    def _give_back(self, size: int) -> None:
        self.free += size


def at_address(address: int, count: int, dtype: Any) -> np.ndarray:
    """The array that begins there."""
    size = count * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_uint8 * size).from_address(int(address)), dtype) if size else np.zeros(0, dtype)


# --- taking in a segment


def measure(
    grid: Grid, order: np.ndarray, starts: np.ndarray, rows: np.ndarray, maxima: np.ndarray, blocks: np.ndarray,
    block_starts: np.ndarray, entries: np.ndarray, pieces: np.ndarray, lists: int, sections: int, section_rows: int,
) -> None:  # fmt: skip
    entries = entries.view(ENTRY).reshape(sections, lists)
    for at, list_ in enumerate(order[:lists].tolist()):
        mine = rows[starts[list_] : starts[list_ + 1]]
        sizes = [int(np.sum(mine // section_rows == section)) for section in range(sections)]
        entries[:, at]["groups"] = [-(-size // 8) for size in sizes]
        entries[:, at]["maximum"] = maxima[list_]
        pieces[pieces_of(block_starts, blocks[at], list_, sections)] = entries[:, at]["groups"]


def arrange(
    grid: Grid, order: np.ndarray, starts: np.ndarray, rows: np.ndarray, values: np.ndarray, blocks: np.ndarray,
    block_starts: np.ndarray, entries: np.ndarray, before: np.ndarray, to_rows: np.ndarray, to_values: np.ndarray,
    lists: int, sections: int, section_rows: int,
) -> None:  # fmt: skip
    entries = entries.view(ENTRY).reshape(sections, lists)
    for at, list_ in enumerate(order[:lists].tolist()):
        entries[:, at]["start"] = before[pieces_of(block_starts, blocks[at], list_, sections)]
        mine = slice(starts[list_], starts[list_ + 1])
        for section, start in enumerate(entries[:, at]["start"].tolist()):
            here = np.flatnonzero(rows[mine] // section_rows == section) + mine.start
            arranged_rows, arranged_values = arranged(rows[here] - section * section_rows, values[here])
            to_rows[8 * start :][: len(arranged_rows)] = arranged_rows
            to_values[8 * start :][: len(arranged_rows)] = arranged_values


def pieces_of(block_starts: np.ndarray, block: int, list_: int, sections: int) -> list[int]:
    """Where the sections of a list come among all: by block, then by section, then by key."""
    first, end = int(block_starts[block]), int(block_starts[block + 1])
    return [sections * first + section * (end - first) + list_ - first for section in range(sections)]


def arranged(rows: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A section's postings by their rank among those of the same bank, then by bank, 8 for each thread of a warp."""
    banks = rows % WARP
    ranks = np.array([np.sum(banks[:i] == banks[i]) for i in range(len(rows))], dtype=np.int64)
    order = np.lexsort((banks, ranks))
    count = -(-len(rows) // 8) * 8
    filled = [np.append(part[order], np.zeros(count - len(rows), part.dtype)) for part in (rows, values)]
    by_thread, values_by_thread = (
        np.concatenate([unit.reshape(8, -1).T.ravel() for unit in np.split(part, range(256, count, 256))] or [part])
        for part in filled
    )
    return by_thread, values_by_thread


# --- a search


def begin(
    grid: Grid, queries: np.ndarray, keys: np.ndarray, weights: np.ndarray, table: np.ndarray, sieves: np.ndarray,
    bins: np.ndarray, vocab: int,
) -> None:  # fmt: skip
    keys, weights = keys.view(np.uint32), weights.view(np.float32)
    for q, query in enumerate(records(queries, grid[1])):
        mine = slice(query["first_key"], query["first_key"] + query["keys"])
        sieve = sieves[q * SIEVE // 32 : (q + 1) * SIEVE // 32]
        assert not table[q * vocab : (q + 1) * vocab].any()
        assert not sieve.any()
        bits = keys[mine] % SIEVE
        np.bitwise_or.at(sieve, bits // 32, np.uint32(1) << bits % 32)
        table[q * vocab + keys[mine].astype(np.int64)] = weights[mine]
        bins[q * 2 * BINS : (q + 1) * 2 * BINS] = 0


def dense(together: int) -> Callable[..., None]:
    def kernel(
        grid: Grid, tiles: np.ndarray, queries: np.ndarray, vectors: np.ndarray, scores: np.ndarray,
        tile_rows: int, places: int, width: int,
    ) -> None:  # fmt: skip
        vectors = vectors.view(np.float32)
        for q in range(together * grid[1]):
            for at, tile in enumerate(tiles.view(TILE)):
                rows = at_address(tile["dense"], tile["count"] * width, np.float16).reshape(-1, width)
                found = rows.astype(np.float32) @ vectors[q * width : (q + 1) * width]
                scores[q * places + at * tile_rows :][: tile["count"]] = found
                if queries is not None:
                    keep_range(records(queries, q + 1)[q], found)

    return kernel


def pool(
    grid: Grid, tiles: np.ndarray, queries: np.ndarray, products: np.ndarray, scores: np.ndarray, tile_rows: int,
    places: int, passages: int,
) -> None:  # fmt: skip
    assert grid[0] % (places // tile_rows) == 0
    for q, query in enumerate(records(queries, grid[1])):
        for at, tile in enumerate(tiles.view(TILE)):
            mine = products[q * passages + int(tile["products"]) : (q + 1) * passages]
            found = np.array([pooled(tile, row, mine, query["best"]) for row in range(tile["count"])], np.float32)
            scores[q * places + at * tile_rows :][: len(found)] = found
            keep_range(query, found)


def pooled(tile: np.void, row: int, products: np.ndarray, best: np.float32) -> np.float32:
    """The dense score of a document, whose passages have these products among others of their segment."""
    if not tile["passage_starts"]:
        return np.float32(products[row])
    start, end = at_address(int(tile["passage_starts"]) + 4 * row, 2, np.uint32).tolist()
    shares = at_address(int(tile["passage_shares"]) + 4 * start, end - start, np.float32)
    mean = (products[start:end] * shares).sum()
    share = np.maximum(0, best - (1 - best) / np.float32(end - start))
    return np.float32(mean + share * (products[start:end].max() - mean))


def keep_range(query: np.void, scores: np.ndarray) -> None:
    query["dense_lowest"] = min(query["dense_lowest"], ordered(scores.min()))
    query["dense_highest"] = max(query["dense_highest"], ordered(scores.max()))


def scale(grid: Grid, queries: np.ndarray, count: int) -> None:
    for query in records(queries, count):
        lowest, highest = (unordered(query[name]) for name in ("dense_lowest", "dense_highest"))
        reach = query["reach"] + float(highest - lowest)
        unit = (LARGEST_SCORE - int(query["spare"])) / (reach or 1.0)
        margin = int(np.ceil(query["reach"] * unit / LEVELS)) + int(query["spare"])
        if query["most"]:
            margin = min(LARGEST_SCORE, margin + int(query["unseen"] * unit) + 1)
        query["lowest"], query["unit"], query["margin"] = lowest, unit, margin


def score(
    grid: Grid, tiles: np.ndarray, queries: np.ndarray, keys: np.ndarray, weights: np.ndarray, extra: np.ndarray,
    allowed: np.ndarray | None, scores: np.ndarray, maxima: np.ndarray, bins: np.ndarray, tile_rows: int, places: int,
) -> None:  # fmt: skip
    keys, weights = keys.view(np.uint32), weights.view(np.float32)
    for q, query in enumerate(records(queries, grid[0])):
        for at, tile in enumerate(tiles.view(TILE)):
            sums = np.zeros(tile_rows, np.uint64)
            first = int(query["first_key"])
            for key, weight in zip(keys[first:][: query["strong"]], weights[first:], strict=False):
                entry = find_list(tile, int(key))
                if entry is not None:
                    add_list(sums, tile, entry, float(weight), float(query["unit"]))
            here = slice(q * places + at * tile_rows, q * places + (at + 1) * tile_rows)
            if query["flags"] & EXTRA:
                more = extra[here][: tile["count"]] - query["lowest"]
                sums[: tile["count"]] += np.ceil(more.astype(np.float64) * query["unit"]).astype(np.uint64) + np.uint64(
                    1
                )
            assert sums.max() <= LARGEST_SCORE
            if allowed is not None:
                sums *= np.unpackbits(allowed.view(np.uint8), bitorder="little")[at * tile_rows :][:tile_rows]
            largest = sums.reshape(-1, CHUNK).max(axis=1).astype(np.uint32)
            scores[here] = np.where(np.repeat(largest, CHUNK) > 0, sums, scores[here])
            maxima[(q * places + at * tile_rows) // CHUNK :][: len(largest)] = largest
            np.add.at(
                bins, q * 2 * BINS + np.array([place_of(bin_of(int(m))) for m in largest if m], dtype=np.int64), 1
            )


def find_list(tile: np.void, key: int) -> np.void | None:
    if key >= tile["keys"]:
        return None
    starts = at_address(tile["key_starts"], int(tile["keys"]) + 1, np.uint32)
    entries, blocks = (
        at_address(tile[name], starts[-1], dtype)[starts[key] : starts[key + 1]]
        for name, dtype in (("entries", ENTRY), ("list_blocks", np.uint16))
    )
    found = entries[blocks == tile["block"]]
    return found[0] if len(found) else None


def add_list(sums: np.ndarray, tile: np.void, entry: np.void, weight: float, unit: float) -> None:
    first, count = 8 * int(entry["start"]), 8 * int(entry["groups"])
    rows = at_address(int(tile["rows"]) + 2 * first, count, np.uint16)
    values = at_address(int(tile["values"]) + first, count, np.uint8)
    maximum = float(np.array([entry["maximum"]]).view(np.float16)[0])
    np.add.at(sums, rows, np.uint64(np.ceil(weight * maximum * unit / LEVELS)) * values.astype(np.uint64))


def collect(
    grid: Grid, queries: np.ndarray, scores: np.ndarray, maxima: np.ndarray, bins: np.ndarray, candidates: np.ndarray,
    room: int, places: int,
) -> None:  # fmt: skip
    for q, query in enumerate(records(queries, grid[1])):
        edge = edge_of(bin_reaching(bins[q * 2 * BINS :][:BINS], query["hold"]))
        lowest = max(0, edge - int(query["margin"]) - 1)
        if query["most"]:
            lowest = max(lowest, edge_of(bin_reaching(bins[q * 2 * BINS :][:BINS], query["most"])) - 1)
        query["first_edge"] = edge
        known = np.repeat(maxima[q * places // CHUNK :][: places // CHUNK] > lowest, CHUNK)
        passing = np.flatnonzero(known & (scores[q * places :][:places] > lowest))
        keys = scores[q * places + passing].astype(np.uint64) << np.uint64(32) | (~passing & 0xFFFFFFFF).astype(
            np.uint64
        )
        query["candidates"] = len(keys)
        candidates[q * room :][: min(room, len(keys))] = np.random.default_rng(0).permutation(keys)[:room]


def cut(grid: Grid, queries: np.ndarray, candidates: np.ndarray, room: int) -> None:
    for q, query in enumerate(records(queries, grid[1])):
        count = min(query["candidates"], room)
        if 0 < query["most"] < count:
            query["cut"] = np.sort(candidates[q * room :][:count])[-int(query["most"])]


def rescore(
    grid: Grid, tiles: np.ndarray, queries: np.ndarray, sieves: np.ndarray, vectors: np.ndarray, table: np.ndarray,
    extra: np.ndarray, candidates: np.ndarray, finalists: np.ndarray, lexical: np.ndarray, dense: np.ndarray,
    bins: np.ndarray, room: int, tile_rows: int, places: int, vocab: int, width: int, again: int,
) -> None:  # fmt: skip
    vectors = vectors.view(np.float32)
    for q, query in enumerate(records(queries, grid[1])):
        least = unordered(query["least"]) if again else np.float32(0)
        sieve = sieves[q * SIEVE // 32 : (q + 1) * SIEVE // 32]
        few = query["candidates"] <= layout.FEW or query["most"] > 0
        for key in candidates[q * room :][: min(room, query["candidates"])].tolist():
            row, bound = ~key & 0xFFFFFFFF, bound_of(query, key >> 32)
            first = few or key >> 32 >= query["first_edge"] or query["flags"] & (EVERY_CANDIDATE | BOUNDS)
            chosen = (not first and bound >= least - np.float32(1e-5) * abs(least)) if again else first
            if key < query["cut"] or not chosen:
                continue
            tile, at = tiles.view(TILE)[row // tile_rows], row % tile_rows
            words = bound if query["flags"] & BOUNDS else exact_lexical(tile, at, table[q * vocab :][:vocab], sieve)
            meaning = np.float32(0)
            if query["flags"] & DENSE_OF_CANDIDATES:
                meaning = exact_dense(tile, at, vectors[q * width : (q + 1) * width], query["best"])
            elif query["flags"] & EXTRA:
                meaning = extra[q * places + row]
            total = np.float32(words + meaning)
            to = q * room + int(query["finalists"])
            finalists[to], lexical[to], dense[to] = ordered(total) << 32 | (~row & 0xFFFFFFFF), words, meaning
            bins[q * 2 * BINS + BINS + place_of(bin_of(scaled(query, total)))] += 1
            query["finalists"] += 1
            if not again:
                query["least"] = min(query["least"], ordered(total))


def exact_lexical(tile: np.void, row: int, table: np.ndarray, sieve: np.ndarray) -> np.float32:
    start, end = at_address(int(tile["row_starts"]) + 4 * row, 2, np.uint32).tolist()
    keys = at_address(tile["row_keys"], tile["weights"], np.uint32 if tile["wide_keys"] else np.uint16)[start:end]
    weights = at_address(tile["row_weights"], tile["weights"], np.float16)[start:end].astype(np.float64)
    bits = keys.astype(np.int64) % SIEVE
    asked = sieve[bits // 32] >> bits.astype(np.uint32) % 32 & 1
    total = 0.0
    for product in (table[keys].astype(np.float64) * weights * asked).tolist():
        total += product
    return np.float32(total)


def exact_dense(tile: np.void, row: int, vector: np.ndarray, best: np.float32) -> np.float32:
    last = row
    if tile["passage_starts"]:
        last = int(at_address(int(tile["passage_starts"]) + 4 * row, 2, np.uint32)[1]) - 1
    vectors = at_address(tile["dense"], (last + 1) * len(vector), np.float16).reshape(-1, len(vector))
    return pooled(tile, row, vectors.astype(np.float32) @ vector, best)


def order(
    grid: Grid, tiles: np.ndarray, queries: np.ndarray, keys: np.ndarray, table: np.ndarray, sieves: np.ndarray,
    finalists: np.ndarray, lexical: np.ndarray, dense: np.ndarray, bins: np.ndarray, positions: np.ndarray,
    to_lexical: np.ndarray, to_dense: np.ndarray, room: int, results: int, tile_rows: int, vocab: int,
) -> None:  # fmt: skip
    keys, positions = keys.view(np.uint32), positions.view(np.uint32)
    to_lexical, to_dense = to_lexical.view(np.float32), to_dense.view(np.float32)
    for q, query in enumerate(records(queries, grid[1])):
        mine = keys[query["first_key"] :][: query["keys"]].astype(np.int64)
        table[q * vocab + mine] = 0
        sieves[q * SIEVE // 32 + mine % SIEVE // 32] = 0
        if query["finalists"] > layout.RANKED:
            continue
        edge = bin_reaching(bins[q * 2 * BINS + BINS :][:BINS], query["k"])
        found = finalists[q * room :][: query["finalists"]]
        for at, key in enumerate(found.tolist()):
            higher, before = np.sum(found >> np.uint64(32) > key >> 32), np.sum(found > key)
            if higher >= query["k"]:
                continue
            assert bin_of(scaled(query, unordered(key >> 32))) >= edge
            query["returned"] += 1
            if before < results:
                row, to = ~key & 0xFFFFFFFF, q * results + before
                positions[to] = tiles.view(TILE)[row // tile_rows]["first"] + row % tile_rows
                to_lexical[to], to_dense[to] = lexical[q * room + at], dense[q * room + at]


# --- numbers


def records(queries: np.ndarray, count: int) -> np.ndarray:
    return queries[: count * QUERY.itemsize].view(QUERY)


def ordered(value: float | np.float32) -> int:
    bits = int(np.float32(value).view(np.uint32))
    return ~bits & 0xFFFFFFFF if bits & 0x80000000 else bits | 0x80000000


def unordered(bits: int) -> np.float32:
    bits = int(bits)
    return np.uint32(bits & 0x7FFFFFFF if bits & 0x80000000 else ~bits & 0xFFFFFFFF).view(np.float32)


def bin_of(score: int) -> int:
    shift = max(0, score.bit_length() - 7)
    return (shift << 6) + (score >> shift)


def place_of(bin: Any) -> Any:
    return bin * 65 & (BINS - 1)


def edge_of(bin: int) -> int:
    return bin if bin < 128 else ((bin & 63) + 64) << ((bin >> 6) - 1)


def bin_reaching(bins: np.ndarray, wanted: int) -> int:
    reached = np.cumsum(bins[place_of(np.arange(BINS)[::-1])])
    return BINS - 1 - int(np.argmax(reached >= wanted)) if wanted and reached[-1] >= wanted else 0


def bound_of(query: np.void, score: int) -> np.float32:
    return np.float32(score / query["unit"] * (1 + 1e-6) + (float(query["lowest"]) + query["unseen"]))


def scaled(query: np.void, score: float | np.float32) -> int:
    return int(min(max((float(score) - float(query["lowest"])) * query["unit"], 0.0), LARGEST_SCORE))


KERNELS: dict[str, Callable[..., None]] = {
    "measure": measure, "arrange": arrange, "begin": begin, "dense_one": dense(1), "dense_four": dense(4),
    "pool": pool, "scale": scale, "score": score, "collect": collect, "cut": cut, "rescore": rescore, "order": order,
}  # fmt: skip
