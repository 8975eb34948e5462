"""Compiled loops over dense vectors: products with a query, and bounds of products from the high bytes alone.

Import this module inside the function that needs it: numba is slow to load. Files may be damaged: no number in them
may make a loop leave an array.
"""

from __future__ import annotations

import numpy as np

from denslice.compiling import compiled, compiled_reordering, inlined
from denslice.search.cpu.intrinsics import as_float, prefetch
from denslice.store.byte_planes import HIGH

PREFETCHED_VECTORS = 4
LINE = 64  # bytes of a line of memory
LARGE = np.float32(2.0**56)  # its square undoes the division of `small_half`; in two steps, no product is too small


@compiled_reordering
def half_products(vectors, query):
    """Return the inner product of the query with each row, which has the bits of float16 numbers."""
    products, large = np.empty(len(vectors), np.float32), query * LARGE
    for i in range(len(vectors)):
        total = np.float32(0)
        for j in range(vectors.shape[1]):
            total += small_half(vectors[i, j]) * large[j]
        products[i] = total * LARGE
    return products


@compiled_reordering
def half_products_of(vectors, numbers, query):
    """Return the inner product of the query with the rows of these numbers, which have the bits of float16 numbers.

    A number that no row has gives 0.
    """
    products, large = np.zeros(len(numbers), np.float32), query * LARGE
    for i in range(len(numbers)):
        if i + PREFETCHED_VECTORS < len(numbers):
            ahead = np.int64(numbers[i + PREFETCHED_VECTORS]) * vectors.shape[1]
            for j in range(0, vectors.shape[1], LINE // 2):
                prefetch(vectors, ahead + j)
        if numbers[i] < len(vectors):
            row, total = vectors[np.int64(numbers[i])], np.float32(0)
            for j in range(vectors.shape[1]):
                total += small_half(row[j]) * large[j]
            products[i] = total * LARGE
    return products


@compiled_reordering
def plane_products_of(high, low, scales, numbers, query):
    """Return the same as `half_products_of`, to the last bit, for vectors in byte planes: scales are powers of two."""
    products = np.zeros(len(numbers), np.float32)
    for i in range(len(numbers)):
        if i + PREFETCHED_VECTORS < len(numbers):
            ahead = np.int64(numbers[i + PREFETCHED_VECTORS]) * high.shape[1]
            for j in range(0, high.shape[1], LINE):
                prefetch(high, ahead + j)
                prefetch(low, ahead + j)
        if numbers[i] < len(high):
            at, total = np.int64(numbers[i]), np.float32(0)
            for j in range(high.shape[1]):
                total += (np.float32(high[at, j]) * np.float32(HIGH) + np.float32(low[at, j])) * query[j]
            products[i] = total * scales[at]
    return products


@compiled
def reaching(high, scales, errors, firsts, ends, query, least):
    """Return the places whose products may reach `least`, and what each does not exceed, from high bytes alone.

    The places are those from firsts[i] to ends[i], in this order. `query` is what `in_whole_numbers` returns.
    """
    numbers, of_high, of_scale, of_error = query
    total = 0
    for r in range(len(firsts)):
        total += max(0, min(ends[r], len(high)) - firsts[r])
    places, bounds, count = np.empty(total, np.int64), np.empty(total, np.float32), 0
    for r in range(len(firsts)):
        for i in range(firsts[r], min(ends[r], len(high))):
            dot = np.int32(0)
            for j in range(high.shape[1]):
                dot = np.int32(dot + np.int32(np.int32(high[i, j]) * np.int32(numbers[j])))
            bound = scales[i] * (of_high * np.float32(dot) + of_scale) + of_error * errors[i]
            if bound >= least:
                places[count], bounds[count] = i, bound
                count += 1
    return places[:count], bounds[:count]


@inlined
def small_half(bits):
    """Return a float16, given by its bits, divided by 2^112: its exponent becomes that of a float32."""
    whole = np.uint32(bits)
    sign_and_rest = ((whole & np.uint32(0x8000)) << np.uint32(16)) | ((whole & np.uint32(0x7FFF)) << np.uint32(13))
    return as_float(np.uint32(sign_and_rest))
