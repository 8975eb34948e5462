"""The vocabulary on disk: pieces, their sum, and growing."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from denslice.errors import IndexFormatError, InputError
from denslice.store import vocabulary
from denslice.store.container import Container, write_container
from denslice.store.folder import Folder
from denslice.store.vocabulary import Growth, Piece, Vocabulary, word_arrays
from denslice.vectors import Array

any_word = st.text(st.characters(exclude_categories=()), max_size=6)  # lone surrogates and NUL among them


def container_of(folder: Path, arrays: Mapping[str, Array], name: str = "piece.arrays") -> Container:
    """The arrays, written to a file and opened."""
    stored = write_container(folder / name, arrays)
    return Container.mapped(Folder(folder), name, stored)


def new_folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def vocabulary_of(folder: Path, *pieces: list[str]) -> Vocabulary:
    opened: list[Piece] = []
    for number, words in enumerate(pieces):
        container = container_of(folder, word_arrays(words), f"{number}.arrays")
        opened.append(Piece.of(container, base=sum(map(len, opened))))
    return Vocabulary(opened)


def test_a_piece_is_three_plain_arrays() -> None:
    arrays = word_arrays(["wing", "air", "élan"])
    assert list(arrays) == ["words", "starts", "sorted"]
    assert arrays["words"].tobytes() == "wingairélan".encode()
    assert (arrays["starts"].tolist(), arrays["starts"].dtype) == ([0, 4, 7, 12], np.dtype(np.int64))
    assert (arrays["sorted"].tolist(), arrays["sorted"].dtype) == ([1, 0, 2], np.dtype(np.uint32))


def test_a_piece_finds_positions_whatever_its_base(tmp_path: Path) -> None:
    piece = Piece.of(container_of(tmp_path, word_arrays(["wing", "air"])), base=7)
    assert [piece.find(word) for word in (b"wing", b"air", b"ai", b"airs", b"zoo", b"")] == [0, 1, -1, -1, -1, -1]
    assert piece.word(1) == "air"


@given(st.lists(any_word, unique=True), st.integers(0, 20), st.lists(any_word))
def test_pieces_written_and_opened_answer_as_a_dict_would(words: list[str], cut: int, asked: list[str]) -> None:
    expected = {word: number for number, word in enumerate(words)}
    with TemporaryDirectory() as folder:
        opened = vocabulary_of(Path(folder), words[:cut], words[cut:])
        assert len(opened) == len(words)
        assert [opened.find(word) for word in words] == list(range(len(words)))
        assert [opened.find(word) for word in asked] == [expected.get(word, -1) for word in asked]
        assert [opened.word(number) for number in range(len(words))] == words
        assert [word for piece in opened.pieces for word in piece.words()] == words


@given(st.lists(any_word, unique=True), st.lists(any_word))
def test_growth_numbers_new_words_after_the_base_in_order_of_arrival(base: list[str], placed: list[str]) -> None:
    expected = {word: number for number, word in enumerate(base)}
    with TemporaryDirectory() as folder:
        growth = Growth(vocabulary_of(Path(folder), base))
        for word in placed:
            assert growth.place(word) == expected.setdefault(word, len(expected))
    assert len(growth) == len(expected)
    assert growth.new_words == list(expected)[len(base) :]
    assert [growth.word(number) for number in range(len(growth))] == list(expected)


def test_growth_finds_without_growing(tmp_path: Path) -> None:
    growth = Growth(vocabulary_of(tmp_path, ["air"]))
    assert (growth.find("air"), growth.find("wing"), growth.new_words) == (0, -1, [])
    assert (growth.place("wing"), growth.find("wing"), growth.new_words) == (1, 1, ["wing"])
    assert growth.base.find("wing") == -1


def test_growth_goes_on_from_a_commit_of_its_own_words_alone(tmp_path: Path) -> None:
    commits = (["air"], ["air", "oven"], ["air", "wing", "oven"], ["air", "wing"])
    *others, after = (vocabulary_of(new_folder(tmp_path / str(len(words)) / words[-1]), words) for words in commits)
    growth = Growth(others[0])
    growth.place("wing")
    assert not any(map(growth.go_on, others))
    assert growth.new_words == ["wing"]
    assert growth.go_on(after)
    assert (growth.find("wing"), growth.place("fox"), growth.new_words) == (1, 2, ["fox"])


def test_growth_keeps_only_the_words_it_was_asked_for(tmp_path: Path) -> None:
    growth = Growth(vocabulary_of(tmp_path, [f"word{number}" for number in range(1000)]))
    growth.place("word7")
    growth.place("wing")
    assert growth._placed == {"word7": 7, "wing": 1000}


def test_a_vocabulary_forgets_lookups_rather_than_keep_every_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vocabulary, "CACHED_LOOKUPS", 2)
    opened = vocabulary_of(tmp_path, ["a", "b", "c"])
    assert [opened.find(word) for word in ("c", "b", "a", "zoo", "c")] == [2, 1, 0, -1, 2]
    assert len(opened.found) <= 2


def test_words_that_are_remembered_have_their_own_ids(tmp_path: Path) -> None:
    opened = vocabulary_of(tmp_path, ["air", "wing"], ["élan"])
    opened.remember([2, 0, 3])
    assert opened.found == {"élan": 2, "air": 0}
    assert [opened.find(word) for word in ("air", "wing", "élan", "zoo")] == [0, 1, 2, -1]


def test_words_are_found_in_pieces_of_many_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [f"w{number * 37 % 101:03}" for number in range(101)]
    for blocks in (1, 2, 7, 100, 101):
        monkeypatch.setattr(vocabulary, "BLOCKS", blocks)
        folder = tmp_path / str(blocks)
        folder.mkdir()
        opened = vocabulary_of(folder, words)
        assert [opened.find(word) for word in words] == list(range(101))
        assert {opened.find(word) for word in ("", "w", "w0005", "w101", "v", "x")} == {-1}


@pytest.mark.parametrize("id", [-1, 2])
def test_an_id_outside_the_vocabulary_is_an_error(tmp_path: Path, id: int) -> None:
    opened = vocabulary_of(tmp_path, ["air", "wing"])
    with pytest.raises(InputError, match=f"no token {id}: the vocabulary has 2 words"):
        opened.word(id)
    with pytest.raises(InputError, match=f"no token {id}: the vocabulary has 2 words"):
        Growth(opened).word(id)


def test_an_empty_vocabulary_knows_no_word() -> None:
    assert (len(Vocabulary()), Vocabulary().find("air")) == (0, -1)


def test_pieces_that_do_not_follow_one_another_are_an_error(tmp_path: Path) -> None:
    container = container_of(tmp_path, word_arrays(["air"]))
    with pytest.raises(IndexFormatError, match="begins at id 5, not 1"):
        Vocabulary([Piece.of(container, base=0), Piece.of(container, base=5)])


@pytest.mark.parametrize("missing", ["words", "starts", "sorted"])
def test_a_missing_array_is_named(tmp_path: Path, missing: str) -> None:
    arrays = {name: array for name, array in word_arrays(["air"]).items() if name != missing}
    with pytest.raises(IndexFormatError, match=rf"piece\.arrays: has no section {missing}; the index is damaged"):
        Piece.of(container_of(tmp_path, arrays), base=0)


def test_an_array_cut_short_is_an_error(tmp_path: Path) -> None:
    arrays = word_arrays(["air"])
    with pytest.raises(IndexFormatError, match=r"piece\.arrays: 1 words in 2 bytes"):
        Piece.of(container_of(tmp_path, arrays | {"words": arrays["words"][:-1]}), base=0)


def test_arrays_of_two_different_pieces_are_an_error(tmp_path: Path) -> None:
    mixed = word_arrays(["air", "wing"]) | {"words": word_arrays(["air"])["words"]}
    with pytest.raises(IndexFormatError, match="2 words in 3 bytes"):
        Piece.of(container_of(tmp_path, mixed), base=0)


@pytest.mark.parametrize("wrong", [np.zeros(1, dtype=np.float32), np.zeros((1, 1), dtype=np.uint32)])
def test_an_array_of_another_type_or_shape_is_an_error(tmp_path: Path, wrong: Array) -> None:
    with pytest.raises(IndexFormatError, match=rf"piece\.arrays: its section sorted holds {wrong.dtype} \(1,.*damaged"):
        Piece.of(container_of(tmp_path, word_arrays(["air"]) | {"sorted": wrong}), base=0)
