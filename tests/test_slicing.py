"""Slicing: where each kind puts the tokens, their gates, growth, equality and checks."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from denslice import InputError, Slicing
from denslice.slicing import KINDS, SKIPPED

few = settings(max_examples=50, deadline=None)
kinds = pytest.mark.parametrize("kind", KINDS)


def made(kind: str, vocab: int, slices: int, skip: int = 0) -> Slicing:
    """A slicing of the kind; the learned one from a fixed sample with about half of the tokens in it."""
    sample = np.random.default_rng(1).integers(0, 4, (5, vocab)) * (np.arange(vocab) % 2)
    return Slicing.made(kind, sp.csr_array(sample), slices, skip, seed=3)


def placed_greedily(sample: np.ndarray, slices: int, skip: int) -> list[int]:
    """The slice of each token by the rule of `Slicing.learned`, in plain Python, weights being whole numbers."""
    docs, vocab = range(len(sample)), sample.shape[1]
    mass = {token: int(sample[:, token].sum()) for token in range(skip, vocab)}
    slice_of = [SKIPPED] * skip + [(token - skip) % slices for token in range(skip, vocab)]
    members: list[list[int]] = [[] for _ in range(slices)]

    def collision(token: int, tokens: list[int]) -> int:
        return sum(min(int(sample[d, token]), max((int(sample[d, t]) for t in tokens), default=0)) for d in docs)

    for token in sorted((t for t in mass if mass[t]), key=lambda t: (-mass[t], t)):
        best = min(range(slices), key=lambda s: (collision(token, members[s]), len(members[s]), s))
        members[best].append(token)
        slice_of[token] = best
    return slice_of


# The four kinds


def test_stride_deals_neighbouring_tokens_to_slices_in_turn() -> None:
    slicing = Slicing.stride(vocab=8, slices=3, skip=1)
    assert slicing.slice_of.tolist() == [SKIPPED, 0, 1, 2, 0, 1, 2, 0]
    assert slicing.gate_of.tolist() == [0, 0, 0, 0, 1, 1, 1, 2]


def test_contiguous_gives_each_slice_a_run_of_tokens() -> None:
    slicing = Slicing.contiguous(vocab=8, slices=3, skip=1)
    assert slicing.slice_of.tolist() == [SKIPPED, 0, 0, 0, 1, 1, 2, 2]
    assert slicing.gate_of.tolist() == [0, 0, 1, 2, 0, 1, 0, 1]


def test_random_deals_the_places_of_stride_in_another_order() -> None:
    slicing = Slicing.random(vocab=101, slices=10, skip=1, seed=5)
    stride = Slicing.stride(vocab=101, slices=10, skip=1)
    assert sorted(slicing.slice_of) == sorted(stride.slice_of)
    assert slicing.slice_of.tolist() != stride.slice_of.tolist()


def test_random_is_told_by_its_seed() -> None:
    assert Slicing.random(100, 10, seed=5) == Slicing.random(100, 10, seed=5)
    assert Slicing.random(100, 10, seed=5) != Slicing.random(100, 10, seed=6)


def test_learned_puts_each_token_where_it_collides_least() -> None:
    sample = np.array([[3, 2, 0, 1], [3, 0, 2, 0]])
    # token 0 → slice 0; tokens 1 and 2 would lose 2 to it, and share no document: slice 1;
    # token 3 collides by 1 with either slice, and slice 0 has fewer tokens
    slicing = Slicing.learned(sample, slices=2)
    assert slicing.slice_of.tolist() == [0, 1, 1, 0]
    assert slicing.gate_of.tolist() == [0, 0, 1, 1]


def test_learned_parts_tokens_that_always_occur_together() -> None:
    sample = np.array([[1, 0, 1, 0], [0, 1, 0, 1], [2, 0, 2, 0]])
    stride, learned = Slicing.stride(4, 2).slice_of, Slicing.learned(sample, slices=2).slice_of
    assert stride[0] == stride[2]
    assert learned[0] != learned[2]
    assert learned[1] != learned[3]


def test_learned_places_tokens_it_never_saw_by_stride() -> None:
    sample = np.array([[0, 9, 0, 0, 5, 0, 0, 0]])
    learned = Slicing.learned(sample, slices=3, skip=1)
    assert learned.slice_of.tolist() == [SKIPPED, 0, 1, 2, 1, 1, 2, 0]


@few
@given(st.data())
def test_learned_is_the_greedy_rule(data: st.DataObject) -> None:
    vocab = data.draw(st.integers(2, 12))
    sample = data.draw(hnp.arrays(np.int64, (data.draw(st.integers(0, 6)), vocab), elements=st.integers(0, 4)))
    skip = data.draw(st.integers(0, min(3, vocab - 2)))
    slices = data.draw(st.integers(1, vocab - skip - 1))
    learned = Slicing.learned(sp.csr_array(sample), slices, skip)
    assert learned.slice_of.tolist() == placed_greedily(sample, slices, skip)


def test_learned_puts_at_most_256_seen_tokens_in_a_slice() -> None:
    # token 0 is in every document, each other token in one: all of them would rather not meet token 0
    sample = np.hstack([np.full((257, 1), 2), np.eye(257, dtype=int)])
    slicing = Slicing.learned(sample, slices=2)
    assert slicing.slice_of.tolist() == [0] + [1] * 256 + [0]
    assert slicing.gate_dtype == np.uint8


def test_learned_slices_take_an_even_share_of_a_vocabulary_too_large_for_256_each() -> None:
    sample = np.hstack([np.full((599, 1), 2), np.eye(599, dtype=int)])
    slicing = Slicing.learned(sample, slices=2)
    assert np.bincount(slicing.slice_of).tolist() == [300, 300]
    assert slicing.gate_dtype == np.uint16


# Laws of every kind


@kinds
@few
@given(vocab=st.integers(0, 60), slices=st.integers(1, 80), data=st.data())
def test_every_token_past_the_skipped_ones_has_a_place_of_its_own(
    kind: str, vocab: int, slices: int, data: st.DataObject
) -> None:
    skip = data.draw(st.integers(0, vocab))
    slicing = made(kind, vocab, slices, skip)
    assert slicing.vocab == vocab
    assert (slicing.slice_of[:skip] == SKIPPED).all()
    for s in range(slices):
        gates = slicing.gate_of[slicing.slice_of == s]
        assert gates.tolist() == list(range(len(gates)))
    assert ((slicing.slice_of[skip:] >= 0) & (slicing.slice_of[skip:] < slices)).all()


@pytest.mark.parametrize("kind", ["stride", "contiguous", "random"])
@few
@given(vocab=st.integers(0, 60), slices=st.integers(1, 80), data=st.data())
def test_sizes_of_slices_differ_by_at_most_one(kind: str, vocab: int, slices: int, data: st.DataObject) -> None:
    skip = data.draw(st.integers(0, vocab))
    sizes = np.bincount(made(kind, vocab, slices, skip).slice_of[skip:], minlength=slices)
    assert sizes.max() - sizes.min() <= 1


@kinds
def test_more_slices_than_tokens_leave_each_token_alone(kind: str) -> None:
    slicing = Slicing.made(kind, sp.csr_array(np.ones((1, 5))), slices=7, skip=1)
    assert len(set(slicing.slice_of[1:].tolist())) == 4


@pytest.mark.parametrize(
    ("fullest", "dtype"), [(1, np.uint8), (256, np.uint8), (257, np.uint16), (65_536, np.uint16), (65_537, np.uint32)]
)
def test_gates_are_one_byte_until_a_slice_has_more_than_256_tokens(fullest: int, dtype: type) -> None:
    slicing = Slicing.stride(vocab=3 * fullest, slices=3)
    assert slicing.gate_dtype == dtype
    assert slicing.gate_of.dtype == dtype
    assert slicing.gate_of.max() == fullest - 1


def test_a_slicing_of_an_unknown_kind_cannot_be_made() -> None:
    with pytest.raises(InputError, match="unknown slicing 'zigzag'; known: stride"):
        Slicing.made("zigzag", sp.csr_array((1, 5)), 2)


# Growth


def test_grown_keeps_places_and_adds_tokens_by_stride() -> None:
    slicing = Slicing.contiguous(vocab=5, slices=2, skip=1)
    grown = slicing.grown(8)
    assert slicing.slice_of.tolist() == [SKIPPED, 0, 0, 1, 1]
    assert grown.slice_of.tolist() == [SKIPPED, 0, 0, 1, 1, 0, 1, 0]
    assert grown.gate_of.tolist() == [0, 0, 1, 0, 1, 2, 2, 3]


@kinds
@few
@given(vocab=st.integers(1, 30), more=st.integers(0, 30), slices=st.integers(1, 12))
def test_places_and_gates_stay_when_the_vocabulary_grows(kind: str, vocab: int, more: int, slices: int) -> None:
    slicing = made(kind, vocab, slices)
    grown = slicing.grown(vocab + more)
    assert grown.vocab == vocab + more
    assert grown.kind == kind
    assert grown.slice_of[:vocab].tolist() == slicing.slice_of.tolist()
    assert grown.gate_of[:vocab].tolist() == slicing.gate_of.tolist()


def test_a_stride_slicing_grown_is_a_larger_stride_slicing() -> None:
    assert Slicing.stride(10, 3, skip=2).grown(25) == Slicing.stride(25, 3, skip=2)


def test_a_slicing_grown_to_less_than_it_has_is_itself() -> None:
    slicing = Slicing.stride(10, 3)
    assert slicing.grown(4) is slicing


# Equality and checks


@kinds
def test_a_slicing_told_as_json_comes_back_the_same(kind: str) -> None:
    slicing = made(kind, vocab=30, slices=7, skip=2)
    again = Slicing.from_json(json.loads(json.dumps(slicing.to_json())))
    assert again == slicing
    assert again.gate_of.tolist() == slicing.gate_of.tolist()


@kinds
def test_a_slicing_saved_as_npz_comes_back_the_same(kind: str, tmp_path: Path) -> None:
    slicing = made(kind, vocab=30, slices=7, skip=2)
    slicing.save(tmp_path / "slicing.npz")
    assert Slicing.load(tmp_path / "slicing.npz") == slicing


def test_a_file_that_holds_no_slicing_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "letter.npz").write_text("dear")
    for name in ("letter.npz", "nowhere.npz"):
        with pytest.raises(InputError, match=name):
            Slicing.load(tmp_path / name)


@pytest.mark.parametrize(
    "other",
    [
        Slicing.stride(6, 2, skip=1),
        Slicing.stride(5, 2),
        Slicing.stride(6, 3),
        Slicing.contiguous(6, 2),
        Slicing("contiguous", 2, 0, Slicing.stride(6, 2).slice_of),
    ],
)
def test_slicings_that_differ_in_anything_are_not_equal(other: Slicing) -> None:
    assert Slicing.stride(6, 2) != other


def test_a_slicing_with_unknown_keys_is_refused() -> None:
    with pytest.raises(InputError, match="found kind, seed, skip, slice_of, slices"):
        Slicing.from_json({**Slicing.stride(4, 2).to_json(), "seed": 1})


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "zigzag"},
        {"slices": 0},
        {"slices": "2"},
        {"skip": -1},
        {"skip": 9},
        {"slice_of": [-1, 0, 1, 2]},
        {"slice_of": [-1, 0, -1, 1]},
        {"slice_of": [0, 0, 1, 1]},
        {"skip": "1"},
        {"slice_of": [-1, "a", 1, 0]},
        {"slice_of": [-1, 0.5, 1, 0]},
        {"slice_of": [[-1, 0, 1, 0]]},
    ],
    ids=str,
)
def test_json_that_tells_no_slicing_is_refused(change: dict[str, Any]) -> None:
    told = {"kind": "stride", "slices": 2, "skip": 1, "slice_of": [-1, 0, 1, 0]}
    Slicing.from_json(told)
    with pytest.raises(InputError):
        Slicing.from_json({**told, **change})


@pytest.mark.parametrize("make", [Slicing.stride, Slicing.contiguous, Slicing.random])
@pytest.mark.parametrize(
    ("vocab", "slices", "skip"),
    [
        (10, 0, 0),
        (10, -1, 0),
        (10, 2.5, 0),
        (10, "3", 0),
        (10, 3, -1),
        (10, 3, 11),
        (10, 3, 1.5),
        (-1, 3, 0),
        (2.5, 3, 0),
        ("10", 3, 0),
    ],
)
def test_numbers_that_make_no_slicing_are_input_errors(make: Any, vocab: Any, slices: Any, skip: Any) -> None:
    with pytest.raises(InputError):
        make(vocab, slices, skip)


def test_a_learned_slicing_refuses_negative_weights() -> None:
    with pytest.raises(InputError, match="negative"):
        Slicing.learned(np.array([[1.0, -1.0]]), slices=2)
