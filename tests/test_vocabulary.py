"""The vocabulary on disk: pieces, their sum, and growing."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from denslice.errors import IndexFormatError, InputError
from denslice.store import vocabulary
from denslice.store.vocabulary import Growth, Piece, Vocabulary, merged_words, write_piece

any_word = st.text(st.characters(exclude_categories=()), max_size=6)  # lone surrogates and NUL among them


def vocabulary_of(folder: Path, *pieces: list[str]) -> Vocabulary:
    opened: list[Piece] = []
    for number, words in enumerate(pieces):
        (folder / str(number)).mkdir()
        write_piece(folder / str(number), words)
        opened.append(Piece.open(folder / str(number), base=sum(map(len, opened))))
    return Vocabulary(opened)


def test_a_piece_is_three_plain_arrays(tmp_path: Path) -> None:
    write_piece(tmp_path, ["wing", "air", "élan"])
    assert np.load(tmp_path / "words.npy").tobytes() == "wingairélan".encode()
    assert np.load(tmp_path / "starts.npy").tolist() == [0, 4, 7, 12]
    assert np.load(tmp_path / "sorted.npy").tolist() == [1, 0, 2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sorted.npy", "starts.npy", "words.npy"]


def test_a_piece_finds_positions_whatever_its_base(tmp_path: Path) -> None:
    write_piece(tmp_path, ["wing", "air"])
    piece = Piece.open(tmp_path, base=7)
    assert [piece.find(word) for word in (b"wing", b"air", b"ai", b"airs", b"zoo", b"")] == [0, 1, -1, -1, -1, -1]
    assert piece.word(1) == "air"


@given(st.lists(any_word, unique=True), st.integers(0, 20), st.lists(any_word))
def test_pieces_written_and_opened_answer_as_a_dict_would(words: list[str], cut: int, asked: list[str]) -> None:
    expected = {word: number for number, word in enumerate(words)}
    with TemporaryDirectory() as folder:
        opened = vocabulary_of(Path(folder), words[:cut], words[cut:])
        assert len(opened) == len(words)
        assert opened.ids(words).tolist() == list(range(len(words)))
        assert [opened.find(word) for word in asked] == [expected.get(word, -1) for word in asked]
        assert [opened.word(number) for number in range(len(words))] == words
        assert merged_words(opened.pieces) == words


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


def test_growth_keeps_only_the_words_it_was_asked_for(tmp_path: Path) -> None:
    growth = Growth(vocabulary_of(tmp_path, [f"word{number}" for number in range(1000)]))
    growth.place("word7")
    growth.place("wing")
    assert growth._placed == {"word7": 7, "wing": 1000}


def test_a_vocabulary_forgets_lookups_rather_than_keep_every_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vocabulary, "REMEMBERED", 2)
    opened = vocabulary_of(tmp_path, ["a", "b", "c"])
    assert opened.ids(["c", "b", "a", "zoo", "c"]).tolist() == [2, 1, 0, -1, 2]
    assert len(opened._found) <= 2


@pytest.mark.parametrize("id", [-1, 2])
def test_an_id_outside_the_vocabulary_is_an_error(tmp_path: Path, id: int) -> None:
    opened = vocabulary_of(tmp_path, ["air", "wing"])
    with pytest.raises(InputError, match=f"no token {id}: the vocabulary has 2 words"):
        opened.word(id)
    with pytest.raises(InputError, match=f"no token {id}: the vocabulary has 2 words"):
        Growth(opened).word(id)


def test_an_empty_vocabulary_knows_no_word() -> None:
    assert (len(Vocabulary()), Vocabulary().find("air"), Vocabulary().ids([]).tolist()) == (0, -1, [])


def test_pieces_that_do_not_follow_one_another_are_an_error(tmp_path: Path) -> None:
    write_piece(tmp_path, ["air"])
    with pytest.raises(IndexFormatError, match="begins at id 5, not 1"):
        Vocabulary([Piece.open(tmp_path, base=0), Piece.open(tmp_path, base=5)])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    write_piece(tmp_path, ["air"])
    (tmp_path / "starts.npy").unlink()
    with pytest.raises(IndexFormatError, match=r"starts\.npy: cannot be read"):
        Piece.open(tmp_path, base=0)


def test_a_file_cut_short_is_an_error(tmp_path: Path) -> None:
    write_piece(tmp_path, ["air"])
    (tmp_path / "words.npy").write_bytes((tmp_path / "words.npy").read_bytes()[:-1])
    with pytest.raises(IndexFormatError, match=r"words\.npy: cannot be read"):
        Piece.open(tmp_path, base=0)


def test_files_of_two_different_pieces_are_an_error(tmp_path: Path) -> None:
    write_piece(tmp_path, ["air", "wing"])
    np.save(tmp_path / "words.npy", np.frombuffer(b"air", dtype=np.uint8))
    with pytest.raises(IndexFormatError, match="2 words in 3 bytes"):
        Piece.open(tmp_path, base=0)


def test_an_array_of_another_type_is_an_error(tmp_path: Path) -> None:
    write_piece(tmp_path, ["air"])
    np.save(tmp_path / "sorted.npy", np.zeros(1, dtype=np.float32))
    with pytest.raises(IndexFormatError, match=r"sorted\.npy: found 1-dimensional float32, expected 1 of uint32"):
        Piece.open(tmp_path, base=0)
