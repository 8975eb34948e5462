"""How compiled loops read memory: arrays at an address, prefetching, and numbers from their bits.

Import this module inside the function that needs it: numba is slow to load.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import carray, types  # type: ignore[attr-defined]
from numba.extending import intrinsic

from denslice.compiling import helper


@intrinsic
def as_float(context, bits):
    """Return the float32 that has these 32 bits."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.uint32), generate


@intrinsic
def as_bits(context, number):
    """Return the 32 bits of a float32."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.uint32(types.float32), generate


@intrinsic
def prefetch(context, array, index):
    """Prefetch an element into the cache. The index may lie outside of the array, since nothing is read."""

    def generate(context, builder, signature, arguments):
        byte, whole = ir.IntType(8).as_pointer(), ir.IntType(32)
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        shape = ir.FunctionType(ir.VoidType(), [byte, whole, whole, whole])
        read, keep, is_data = (ir.Constant(whole, number) for number in (0, 3, 1))
        builder.call(builder.module.declare_intrinsic("llvm.prefetch", [byte], shape), [place, read, keep, is_data])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


def _pointer_to(kind):
    @intrinsic
    def pointer(context, address):
        def generate(context, builder, signature, arguments):
            return builder.inttoptr(arguments[0], context.get_value_type(types.CPointer(kind)))

        return types.CPointer(kind)(types.int64), generate

    return pointer


_to_bytes, _to_shorts = _pointer_to(types.uint8), _pointer_to(types.uint16)
_to_words, _to_longs = _pointer_to(types.uint32), _pointer_to(types.uint64)
_to_floats = _pointer_to(types.float32)


@helper
def bytes_at(address, count):
    """Return the uint8 array at the address."""
    return carray(_to_bytes(address), (count,))


@helper
def shorts_at(address, count):
    """Return the uint16 array at the address."""
    return carray(_to_shorts(address), (count,))


@helper
def words_at(address, count):
    """Return the uint32 array at the address."""
    return carray(_to_words(address), (count,))


@helper
def longs_at(address, count):
    """Return the uint64 array at the address."""
    return carray(_to_longs(address), (count,))


@helper
def floats_at(address, count):
    """Return the float32 array at the address."""
    return carray(_to_floats(address), (count,))


@intrinsic
def ones(context, bits):
    """Return how many of these 64 bits are 1."""

    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@helper
def half(bits):
    """Return a non-negative float16, given by its bits, as a float32."""
    return as_float(np.uint32(bits) << np.uint32(13)) * np.float32(2.0**112)
