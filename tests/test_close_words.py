"""Close words: every word within an edit distance is found and no other, and so is every word with a prefix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from denslice.errors import IndexFormatError, InputError
from denslice.search import close_words
from denslice.search.close_words import CloseWord, CloseWords, allowed_distance
from denslice.search.edit_distance import edit_distance, rows_for
from denslice.search.letter_signatures import LONG, LetterSignatures, signature_of
from denslice.search.word_halves import word_halves
from denslice.store.vocabulary import Piece, word_arrays

LETTERS = "abA\u0301\u093f漢字😀\ud800\udc00"  # a, A and U+0301 share a bucket; halves of a pair; combining marks
some_word = st.text(LETTERS, max_size=7)
any_word = st.text(st.characters(exclude_categories=()), max_size=6)
words_in_pieces = st.tuples(st.lists(some_word, unique=True), st.integers(0, 20))
EVERY_SIZE, NO_SIZE = 1 << 62, -1  # of vocabularies that are searched without compiled code


@pytest.fixture(params=[EVERY_SIZE, NO_SIZE], ids=["plain", "compiled"], scope="module")
def _each_way(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(close_words, "SMALL_VOCABULARY", request.param)
        yield


def pieces_of(*lists: Sequence[str]) -> list[Piece]:
    pieces: list[Piece] = []
    for words in lists:
        arrays = word_arrays(words)
        base = sum(map(len, pieces))
        pieces.append(Piece(base, arrays["words"], arrays["starts"], arrays["sorted"], Path(f"{len(pieces)}.arrays")))
    return pieces


def close_words_of(*lists: Sequence[str]) -> CloseWords:
    return CloseWords.of(pieces_of(*lists))


def plain_distance(first: str, second: str) -> int:
    """The definition: the whole table of the optimal string alignment."""
    far = {(i, 0): i for i in range(len(first) + 1)} | {(0, j): j for j in range(len(second) + 1)}
    for i, j in product(range(1, len(first) + 1), range(1, len(second) + 1)):
        substituted = far[i - 1, j - 1] + (first[i - 1] != second[j - 1])
        far[i, j] = min(substituted, far[i - 1, j] + 1, far[i, j - 1] + 1)
        if i > 1 and j > 1 and first[i - 2 : i] == second[j - 1] + second[j - 2]:
            far[i, j] = min(far[i, j], far[i - 2, j - 2] + 1)
    return far[len(first), len(second)]


def plainly_within(words: Sequence[str], asked: str, distance: int) -> list[CloseWord]:
    found = [CloseWord(word, plain_distance(word, asked)) for word in words]
    return sorted((one for one in found if one.distance <= distance), key=lambda one: (one.distance, one.word))


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [
        ("", "", 0),
        ("receive", "recieve", 1),  # neighbours are swapped
        ("hello", "ehllo", 1),  # the first two also
        ("ca", "abc", 3),  # no letter is edited twice, or it were 2
        ("house", "xhousey", 2),
        ("हिन्दी", "हिनदी", 1),
        ("漢字", "字漢", 1),
        ("😀b", "b", 1),
    ],
)
def test_the_distance_counts_edits_of_code_points(first: str, second: str, distance: int) -> None:
    assert plain_distance(first, second) == distance
    assert edit_distance([*map(ord, first)], [*map(ord, second)], distance, rows_for(len(second))) == distance


@given(some_word, some_word, st.integers(0, 8))
def test_the_distance_is_exact_up_to_a_limit_and_one_more_above_it(first: str, second: str, most: int) -> None:
    expected = min(plain_distance(first, second), most + 1)
    assert edit_distance([*map(ord, first)], [*map(ord, second)], most, rows_for(len(second))) == expected


@given(st.lists(any_word | some_word, unique=True))
def test_the_signatures_of_a_piece_are_those_of_its_words(words: list[str]) -> None:
    made = LetterSignatures.of(pieces_of(words)[0])
    in_order = [words[position] for position in made.positions.tolist()]
    assert sorted(in_order) == sorted(words)
    assert made.signatures.tolist() == [signature_of(word) for word in in_order]
    assert [len(word) for word in in_order] == np.repeat(np.arange(LONG + 1), np.diff(made.starts)).tolist()
    assert made.longest == max(map(len, words), default=0)


def test_a_signature_says_which_letters_a_word_has_once_and_twice() -> None:
    a, b = 1 << ord("a") % 32, 1 << ord("b") % 32
    assert signature_of("") == 0
    assert signature_of("ab") == signature_of("ba") == a | b
    assert signature_of("abaa") == a | b | a << 32


@pytest.mark.usefixtures("_each_way")
def test_a_typo_finds_the_word_that_was_meant_and_the_closest_come_first() -> None:
    made = close_words_of(["receive", "relieve", "received", "deceive", "house"])
    assert made.within("recieve", 1) == [("receive", 1), ("relieve", 1)]
    assert made.within("recieve", 2) == [("receive", 1), ("relieve", 1), ("deceive", 2), ("received", 2)]
    assert made.within("receive", 0) == [("receive", 0)]
    assert made.within("xhousey", 2) == made.within("ohsue", 2) == [("house", 2)]


@pytest.mark.usefixtures("_each_way")
@given(words_in_pieces, some_word, st.integers(0, 9))
def test_every_word_within_the_distance_is_found_and_no_other(
    given_words: tuple[list[str], int], asked: str, distance: int
) -> None:
    words, cut = given_words
    found = close_words_of(words[:cut], words[cut:]).within(asked, distance)
    assert found == plainly_within(words, asked, distance)


@pytest.mark.usefixtures("_each_way")
@given(words_in_pieces, st.lists(some_word, max_size=4), st.integers(0, 2))
def test_many_words_are_asked_for_at_once(given_words: tuple[list[str], int], asked: list[str], distance: int) -> None:
    words, cut = given_words
    found = close_words_of(words[:cut], words[cut:]).within_each(asked, distance)
    assert found == [plainly_within(words, word, distance) for word in asked]


@pytest.mark.usefixtures("_each_way")
@pytest.mark.parametrize("word", ["a", "ab", "abc", "abcd", "abcde", "漢字かなの", "abcdefgh" * 8])
def test_one_edit_anywhere_is_found(word: str) -> None:
    edits = [word[:at] + middle + word[at + cut :] for at in range(len(word)) for middle in ("", "x") for cut in (0, 1)]
    swaps = [word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in range(len(word) - 1)]
    made = close_words_of([word, word + "yyy"])
    assert [one for one in (*edits, *swaps, f"{word}x") if made.within(one, 1)[0].word != word] == []


@pytest.mark.usefixtures("_each_way")
@given(words_in_pieces, some_word, st.integers(0, 3))
def test_only_words_with_a_beginning_are_close_if_one_is_given(
    given_words: tuple[list[str], int], asked: str, distance: int
) -> None:
    words, cut = given_words
    made = CloseWords.of(pieces_of(words[:cut], words[cut:]), beginning="a")
    expected = plainly_within([word for word in words if word.startswith("a")], asked, distance)
    assert made.within(asked, distance) == expected


@given(st.lists(any_word | some_word, unique=True))
def test_every_word_is_listed_by_both_of_its_halves(words: list[str]) -> None:
    piece = pieces_of(words)[0]
    made = LetterSignatures.of(piece)
    *tables, bits = word_halves(piece, made)
    letters = {position: signature_of(word) & (1 << 32) - 1 for position, word in enumerate(words)}
    for entries, starts in tables:
        assert {entry & (1 << 32) - 1: entry >> 32 for entry in entries.tolist()} == letters
        assert len(entries) == len(words)
        assert len(starts) == (LONG << bits) + 1
        assert int(starts[-1]) == sum(len(word) < LONG for word in words)


@pytest.mark.usefixtures("_each_way")
@given(st.lists(any_word, unique=True, min_size=1), st.data())
def test_a_word_of_any_script_is_found_with_a_letter_more_or_fewer(words: list[str], data: st.DataObject) -> None:
    word, letter = data.draw(st.sampled_from(words)), data.draw(st.characters(exclude_categories=()))
    at = data.draw(st.integers(0, len(word)))
    made = close_words_of(words)
    for asked in (
        word,
        word[:at] + letter + word[at:],
        word[:at] + word[at + 1 :],
        word[:at] + letter + word[at + 1 :],
    ):
        assert made.within(asked, 1) == plainly_within(words, asked, 1)


@pytest.mark.usefixtures("_each_way")
def test_many_words_are_found_among_many() -> None:
    words = ["".join(letters) for length in range(6) for letters in product("abcd", repeat=length)]
    made = close_words_of(words[::3], words[1::3], words[2::3])
    for asked, distance in (("abca", 2), ("dd", 1), ("abcdd", 3)):
        assert made.within(asked, distance) == plainly_within(words, asked, distance)
    assert len(made.within("abca", 9)) == len(words)


@pytest.mark.usefixtures("_each_way")
def test_long_words_are_found_whatever_their_length() -> None:
    words = ["字" * length for length in range(LONG - 2, LONG + 4)] + ["字" * LONG + "漢" * 5]
    made = close_words_of(words)
    for length in range(LONG - 4, LONG + 8, 2):
        asked = "字" * length
        assert made.within(asked, 2) == plainly_within(words, asked, 2)


@pytest.mark.usefixtures("_each_way")
def test_a_distance_beyond_every_word_finds_them_all() -> None:
    assert close_words_of(["b", ""], ["abc"]).within("b", 1 << 70) == [("b", 0), ("", 1), ("abc", 2)]


@pytest.mark.usefixtures("_each_way")
@pytest.mark.parametrize("lists", [[], [[]], [[], []]])
def test_an_empty_vocabulary_has_no_words(lists: list[list[str]]) -> None:
    made = close_words_of(*lists)
    assert (made.within("word", 2), made.starting_with(""), made.ids_starting_with("").tolist()) == ([], [], [])


@given(words_in_pieces, some_word, st.none() | st.integers(0, 5))
def test_every_word_with_a_prefix_is_found_in_order(
    given_words: tuple[list[str], int], prefix: str, limit: int | None
) -> None:
    words, cut = given_words
    made = close_words_of(words[:cut], words[cut:])
    expected = sorted(word for word in words if word.startswith(prefix))
    assert made.starting_with(prefix, limit) == expected[:limit]
    assert sorted(words[id] for id in made.ids_starting_with(prefix).tolist()) == expected


def test_a_prefix_may_be_of_any_script_and_end_within_a_cluster() -> None:
    made = close_words_of(["हिन्दी", "हिन्दू", "été"], ["москва", "hindi", "हि"])
    assert made.starting_with("हि") == ["हि", "हिन्दी", "हिन्दू"]
    assert made.starting_with("ह") == made.starting_with("हि")
    assert made.starting_with("мос", limit=1) == ["москва"]
    assert made.starting_with("é", None) == ["été"]


def test_words_with_a_prefix_are_read_one_by_one() -> None:
    each = close_words_of([f"w{number:04}" for number in range(5000)]).each_starting_with("w1")
    assert [next(each), next(each)] == ["w1000", "w1001"]
    assert sum(1 for _ in each) == 998


@pytest.mark.parametrize(("word", "edits"), [("", 0), ("air", 0), ("wing", 1), ("receive", 1), ("airplane", 2)])
def test_longer_words_may_have_more_edits(word: str, edits: int) -> None:
    assert allowed_distance(word) == edits


def test_signatures_are_made_once_and_used_again_after_a_commit() -> None:
    pieces = pieces_of(["air"], ["wing"])
    before = CloseWords.of(pieces[:1])
    assert before._known == {}  # nothing is made before it is needed
    assert before.within("aix", 1) == [("air", 1)]
    grown = CloseWords.of(pieces, before)
    assert list(grown._known.values()) == list(before._known.values())
    assert grown.within("wink", 1) == [("wing", 1)]
    assert len(grown._known) == 2


@pytest.mark.parametrize("starts", [[0, 9, 3, 5], [1, 2, 3, 5], [0, -4, 3, 5]])
def test_a_damaged_piece_is_an_error(starts: list[int]) -> None:
    letters, order = np.zeros(5, np.uint8), np.arange(3, dtype=np.uint32)
    damaged = Piece(0, letters, np.array(starts, np.int64), order, Path("0.arrays"))
    with pytest.raises(IndexFormatError, match=r"0\.arrays"):
        CloseWords.of([damaged]).within("air", 1)


@given(st.binary(min_size=1, max_size=12))
def test_compiled_code_reads_bytes_that_are_not_utf8_without_harm(letters: bytes) -> None:
    piece = Piece(0, np.frombuffer(letters, np.uint8), np.array([0, len(letters)]), np.zeros(1, np.uint32), Path("0"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(close_words, "SMALL_VOCABULARY", NO_SIZE)
        try:
            assert CloseWords.of([piece]).within("\x80a", 2) == plainly_within(piece.words(), "\x80a", 2)
        except IndexFormatError:
            with pytest.raises(IndexFormatError):
                piece.words()


def test_a_distance_or_a_limit_below_0_is_an_error() -> None:
    made = close_words_of(["air"])
    with pytest.raises(InputError, match="-1: it must be 0 or more"):
        made.within("air", -1)
    with pytest.raises(InputError, match="-1 words: it must be 0 or more"):
        made.starting_with("air", -1)
