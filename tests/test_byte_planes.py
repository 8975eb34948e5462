"""Dense vectors in two planes of bytes: nothing is lost, and the high bytes bound every product."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from denslice.errors import InputError
from denslice.search.cpu.exact_scores import passage_products
from denslice.search.cpu.vector_bounds import WholeQuery, places_reaching
from denslice.store.byte_planes import AT_ONCE, BytePlanes, on_grid

Halves = npt.NDArray[np.float16]
WIDTHS = [1, 7, 16, 33, 100, 384, 1_023]
halves = arrays(
    np.float16,
    st.tuples(st.integers(1, 5), st.integers(1, 40)),
    elements=st.floats(-65_504, 65_504, width=16, allow_nan=False),
)


def drawn(count: int, width: int, seed: int = 1) -> Halves:
    """Vectors with a few large numbers, many small ones and some zeros, of different lengths."""
    dice = np.random.default_rng(seed)
    numbers = dice.standard_normal((count, width)) ** 3 * 10.0 ** dice.uniform(-4, 1, (count, 1))
    numbers[dice.random((count, width)) < 0.1] = 0
    return on_grid(numbers)


@given(halves)
@settings(max_examples=60, deadline=None)
def test_vectors_on_the_grid_stay_as_they_are(vectors: Halves) -> None:
    rounded = on_grid(vectors)
    assert np.isfinite(rounded.astype(np.float32)).all()
    np.testing.assert_array_equal(on_grid(rounded), rounded)
    np.testing.assert_array_equal(BytePlanes.of(rounded)[:], rounded)
    largest = np.abs(vectors.astype(np.float64)).max(axis=1, keepdims=True)
    moved = np.abs(rounded.astype(np.float64) - vectors.astype(np.float64))
    assert (moved <= largest / 2**15).all()
    assert (moved[np.abs(vectors.astype(np.float64)) >= largest / 16] == 0).all()


def test_rows_of_planes_are_read_by_number_numbers_and_slice() -> None:
    vectors = drawn(AT_ONCE + 3, 5)
    planes = BytePlanes.of(vectors)
    assert planes.shape == vectors.shape
    np.testing.assert_array_equal(planes[:], vectors)
    np.testing.assert_array_equal(planes[3], vectors[3])
    np.testing.assert_array_equal(planes[np.array([AT_ONCE + 1, 0])], vectors[[AT_ONCE + 1, 0]])


@pytest.mark.parametrize("width", WIDTHS)
def test_products_are_those_of_float16_vectors_to_the_last_bit(width: int) -> None:
    """So a document keeps its score when its segment grows large enough for planes."""
    vectors = drawn(500, width)
    query = np.random.default_rng(2).standard_normal(width).astype(np.float32)
    numbers = np.random.default_rng(3).integers(0, 500, 300)
    planes = BytePlanes.of(vectors)
    np.testing.assert_array_equal(passage_products(planes, query), passage_products(vectors, query))
    np.testing.assert_array_equal(passage_products(planes, query, numbers), passage_products(vectors, query, numbers))
    np.testing.assert_allclose(
        passage_products(vectors, query),
        vectors.astype(np.float64) @ query,
        rtol=1e-4,
        atol=1e-5 * float(np.abs(vectors).max()),
    )


@pytest.mark.parametrize("width", [*WIDTHS, 20_000])
def test_no_product_is_above_its_bound(width: int) -> None:
    vectors, dice = drawn(300, width), np.random.default_rng(4)
    planes = BytePlanes.of(vectors)
    first, end = np.zeros(1, np.int64), np.array([len(vectors)])
    for query in (
        dice.standard_normal(width),
        100 * dice.standard_normal(width) ** 5,
        vectors[7].astype(np.float64),
        planes.high[9] * 256.0 + planes.low[9] - (planes.high[9] * 256.0 + 127.5),  # where the high bytes err most
        np.zeros(width),
    ):
        asked = query.astype(np.float32)
        _, bounds = places_reaching(planes, first, end, WholeQuery.of(asked), -np.inf)
        products = vectors.astype(np.float64) @ asked
        assert (bounds >= products).all()
        assert (bounds >= passage_products(planes, asked)).all()
        lengths = np.linalg.norm(asked) * np.linalg.norm(vectors.astype(np.float64), axis=1)
        assert (
            width > 10_000 or (bounds - products <= 0.2 * lengths + 1e-3 * lengths.max()).all()
        )  # and it says something


def test_only_places_that_reach_are_returned_in_the_order_of_the_parts() -> None:
    vectors = drawn(200, 32)
    planes, query = BytePlanes.of(vectors), vectors[150].astype(np.float32)
    firsts, ends = np.array([140, 10]), np.array([160, 30])
    everything, bounds = places_reaching(planes, firsts, ends, WholeQuery.of(query), -np.inf)
    assert everything.tolist() == [*range(140, 160), *range(10, 30)]
    least = float(np.sort(bounds)[-5])
    some, high = places_reaching(planes, firsts, ends, WholeQuery.of(query), least)
    assert some.tolist() == everything[bounds >= least].tolist()
    np.testing.assert_array_equal(high, bounds[bounds >= least])
    beyond = places_reaching(planes, np.array([190]), np.array([1_000]), WholeQuery.of(query), -np.inf)[0]
    assert beyond.tolist() == list(range(190, 200))


def test_a_query_of_another_width_is_an_error() -> None:
    planes, query = BytePlanes.of(drawn(10, 8)), WholeQuery.of(np.ones(9, np.float32))
    with pytest.raises(InputError, match="dimensions"):
        places_reaching(planes, np.zeros(1, np.int64), np.array([10]), query, 0.0)
