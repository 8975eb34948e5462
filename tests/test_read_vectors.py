"""Ready vectors in .npz files come with their ids, or with a word on what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from denslice.corpus.documents import read_vectors
from denslice.errors import InputError

TWO_ROWS = sp.csr_array([[0.0, 1.5, 0.0], [2.0, 0.0, 0.5]])


def save(path: Path, matrix: Any, **more: Any) -> Path:
    """The path, after the matrix was saved as scipy does, with more arrays in the file."""
    sp.save_npz(path, matrix)
    with np.load(path) as arrays:
        np.savez(path, **arrays, **more)
    return path


def vector_problem(path: Path, vocab: int | None = None) -> str:
    with pytest.raises(InputError) as caught:
        read_vectors(path, vocab)
    return str(caught.value)


def test_vectors_come_with_the_ids_inside_the_file(tmp_path: Path) -> None:
    ids, vectors = read_vectors(save(tmp_path / "v.npz", TWO_ROWS, ids=np.array(["a", "b c"])), vocab=3)
    assert ids == ["a", "b c"]
    assert vectors.dtype == np.float32
    assert vectors.toarray().tolist() == [[0, 1.5, 0], [2, 0, 0.5]]


def test_ids_inside_the_file_may_be_whole_numbers(tmp_path: Path) -> None:
    assert read_vectors(save(tmp_path / "v.npz", TWO_ROWS, ids=np.array([7, 12])))[0] == ["7", "12"]


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_vectors_come_with_the_ids_beside_the_file(tmp_path: Path, form: str) -> None:
    (tmp_path / "v.ids.txt").write_text("a\nb c\n")
    ids, vectors = read_vectors(save(tmp_path / "v.npz", TWO_ROWS.asformat(form)))
    assert (ids, vectors.toarray().tolist()) == (["a", "b c"], [[0, 1.5, 0], [2, 0, 0.5]])


def test_vectors_without_ids_name_both_places_for_them(tmp_path: Path) -> None:
    path = save(tmp_path / "v.npz", TWO_ROWS)
    beside = tmp_path / "v.ids.txt"
    assert vector_problem(path) == (
        f"{path}: no ids; expected an array `ids` in the file, or one id per line in {beside}"
    )


@pytest.mark.parametrize(
    ("matrix", "ids", "problem"),
    [
        (TWO_ROWS, ["a"], "2 vectors, but ids for 1"),
        (TWO_ROWS, ["a", "a"], "ids[1]: id 'a' was already used"),
        (TWO_ROWS, ["a", ""], "ids[1]: the id is empty"),
        (TWO_ROWS, [1.0, 2.0], "not a scipy sparse .npz: its ids are 1 dimensions of float64"),
        (-TWO_ROWS, ["a", "b"], "vectors hold negative weights"),
        (TWO_ROWS * 1e300, ["a", "b"], "vectors hold NaN or infinite weights"),
        (TWO_ROWS * np.nan, ["a", "b"], "vectors hold NaN or infinite weights"),
        (TWO_ROWS * 1j, ["a", "b"], "not a scipy sparse .npz: 2 dimensions of complex128"),
    ],
)
def test_bad_vectors_name_the_file_and_fault(tmp_path: Path, matrix: Any, ids: list[Any], problem: str) -> None:
    path = save(tmp_path / "v.npz", matrix, ids=np.array(ids))
    assert vector_problem(path).startswith(f"{path}: {problem}")


def test_another_vocabulary_is_an_error(tmp_path: Path) -> None:
    path = save(tmp_path / "v.npz", TWO_ROWS, ids=np.array(["a", "b"]))
    assert vector_problem(path, vocab=4) == f"{path}: vectors have 3 columns, expected a vocabulary of 4"


def test_a_bad_id_beside_the_file_names_its_line(tmp_path: Path) -> None:
    beside = tmp_path / "v.ids.txt"
    beside.write_text("a\na\n")
    assert vector_problem(save(tmp_path / "v.npz", TWO_ROWS)).startswith(f"{beside}:2: id 'a' was already used")


def test_columns_outside_the_matrix_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "v.npz", TWO_ROWS, ids=np.array(["a", "b"]))
    with np.load(path) as arrays:
        np.savez(path, **{**arrays, "indices": np.array([1, 0, 2_000_000])})
    assert vector_problem(path).startswith(f"{path}: not a scipy sparse .npz:")


def test_pickled_ids_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "v.npz", TWO_ROWS, ids=np.array(["a", "b"], dtype=object))
    assert "allow_pickle=False" in vector_problem(path)


def test_a_file_that_is_no_npz_is_refused(tmp_path: Path) -> None:
    (tmp_path / "v.npz").write_text("text")
    assert "not an .npz file" in vector_problem(tmp_path / "v.npz")
    assert "no such file" in vector_problem(tmp_path / "nowhere.npz")
    np.savez(tmp_path / "other.npz", weights=np.ones(3))
    assert "not a scipy sparse .npz" in vector_problem(tmp_path / "other.npz")


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.85])
def test_a_damaged_npz_is_refused(tmp_path: Path, share: float) -> None:
    path = save(tmp_path / "v.npz", TWO_ROWS, ids=np.array(["a", "b"]))
    raw = bytearray(path.read_bytes())
    start = int(len(raw) * share)
    raw[start : start + 100] = b"!" * 100
    path.write_bytes(raw)
    assert vector_problem(path).startswith(f"{path}: ")
