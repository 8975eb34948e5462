"""Queries as people type them: what is an operator, and what is plain text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denslice.errors import InputError
from denslice.queries import Clause, Query
from denslice.search.typed_queries import MOST_OPERATORS, parsed, read_by_items

FIELDS = {"title", "year", "author"}
PIECES = [
    '"',
    "„",
    "“",
    "”",
    "«",
    "»",
    "「",
    "」",
    "-",
    "+",
    "*",
    "~",
    ":",
    "OR",
    "title:",
    " ",
    "fox",
    "лиса",
    "狐",
    "9",
]


def test_a_query_has_phrases_words_and_fields() -> None:
    assert parsed('foxes "sleep by day" -zoo +night title:animals', FIELDS) == Query(
        text="foxes sleep by day night animals",
        must=[Clause("night"), Clause("animals", field="title")],
        must_not=[Clause("zoo")],
        phrases=["sleep by day"],
    )


def test_fields_of_metadata_are_conditions_and_not_scored() -> None:
    assert parsed('owls year:2020 author:"Jane Doe" -author:bob', FIELDS) == Query(
        text="owls",
        must=[Clause("2020", field="year"), Clause("Jane Doe", "phrase", "author")],
        must_not=[Clause("bob", field="author")],
    )


def test_prefixes_and_close_words_are_scored_and_required_with_a_plus() -> None:
    assert parsed("sle* +wolf* recieve~ -zo*") == Query(
        text="sle wolf recieve",
        must=[Clause("wolf", "prefix")],
        must_not=[Clause("zo", "prefix")],
        should=[Clause("sle", "prefix"), Clause("wolf", "prefix"), Clause("recieve", "fuzzy")],
    )


def test_an_excluded_phrase_is_not_scored() -> None:
    assert parsed('fox -"red fox"') == Query(text="fox", must_not=[Clause("red fox", "phrase")])


@pytest.mark.parametrize(
    ("typed", "choice"),
    [
        ('fox OR "grey wolf"', (Clause("fox"), Clause("grey wolf", "phrase"))),
        ("+fox OR grey OR wolf", (Clause("fox"), Clause("grey"), Clause("wolf"))),
        ("fox OR +grey OR wolf", (Clause("fox"), Clause("grey"), Clause("wolf"))),
    ],
)
def test_or_with_a_plus_or_a_phrase_is_a_choice(typed: str, choice: tuple[Clause, ...]) -> None:
    assert parsed(typed).must == (choice,)
    assert parsed(typed).text == typed.translate(str.maketrans("", "", '+"')).replace("OR ", "")


@pytest.mark.parametrize("typed", ["fox OR wolf", "OR fox", "fox OR", "OR", "fox OR OR wolf"])
def test_or_between_words_is_plain_text(typed: str) -> None:
    assert parsed(typed) == Query(text=typed)


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "  two  spaces ",
        "e-mail covid-19 state-of-the-art",
        "a - b -- c",
        "-10 +49 170 -3d",
        "ls -l --verbose",
        "C++ C# F*",
        "f(x) = -y",
        "y = -alpha",
        "https://example.org/a?b=-c re: hello 12:30 C:\\temp",
        "nope:word title: fox",
        '"unbalanced',
        '6" x 4" print',
        "„unbalanced und «weiter",
        '"" "…" «»',
        "**bold** 5 * 3 ~5 ~/notes a*b",
        "- + * ~ : \" ' OR",
        "don't",
    ],
)
def test_stray_signs_are_plain_text(typed: str) -> None:
    assert parsed(typed, FIELDS) == Query(text=typed)


@pytest.mark.parametrize(
    "typed",
    [
        '"a fox"',
        "“a fox”",
        "„a fox“",
        "„a fox”",
        "”a fox”",
        "«a fox»",
        "« a fox »",
        "»a fox«",
        "「a fox」",
        "『a fox』",
    ],
)
def test_quotes_of_all_kinds_make_a_phrase(typed: str) -> None:
    assert parsed(f"{typed} sleeps") == Query(text="a fox sleeps", phrases=["a fox"])


def test_quotes_need_no_spaces_around_them() -> None:
    assert parsed("彼は「こんにちは」と言った").phrases == ("こんにちは",)
    assert parsed('("a fox"), they said').phrases == ("a fox",)


def test_punctuation_behind_a_word_is_no_part_of_it() -> None:
    expected = Query(text="fox, night", must=[Clause("night")], must_not=[Clause("zoo")])
    assert parsed("fox, -zoo, +night!") == expected


def test_one_sign_of_a_script_without_cases_is_a_word() -> None:
    assert parsed("犬 -猫").must_not == (Clause("猫"),)


def test_what_follows_many_operators_is_plain_text() -> None:
    query = parsed("-word " * (MOST_OPERATORS + 1) + '"a phrase"')
    assert len(query.must_not) == MOST_OPERATORS
    assert query.text == '-word "a phrase"'


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | st.text())
def test_every_text_is_a_query(typed: str) -> None:
    query = parsed(typed, FIELDS)
    if not query.conditions and not query.should:
        assert query == Query(text=typed)


@given(st.lists(st.sampled_from([*PIECES, "\t", "\x1c", "\u3000"]), max_size=12).map("".join) | st.text())
def test_a_text_that_has_no_sign_of_an_operator_is_read_as_any_other(typed: str) -> None:
    assert parsed(typed, FIELDS) == read_by_items(typed, FIELDS)


@given(st.text(st.characters(exclude_characters='"“”„«»‹›「」『』+-*~:O')))
def test_a_text_without_operators_is_unchanged(typed: str) -> None:
    assert parsed(typed, FIELDS) == Query(text=typed)


@given(st.lists(st.from_regex(r"[a-zа-яα-ω]{2,8}", fullmatch=True), min_size=1, max_size=4))
def test_what_a_query_shows_is_what_was_typed(words: list[str]) -> None:
    typed = [f'"{" ".join(words)}"', *(f"+{word}" for word in words), f"title:{words[0]}", f"-{words[0]}"]
    assert parsed(" ".join(typed), FIELDS).conditions == tuple(typed)


def test_a_list_is_wanted_where_one_word_is_given() -> None:
    with pytest.raises(InputError, match=r"must is 'fox', expected a list such as \['fox'\]"):
        Query(must="fox")
    with pytest.raises(InputError, match="must_not has 3, which is int; expected a string or a Clause"):
        Query(must_not=[3])  # type: ignore[list-item]
    with pytest.raises(InputError, match="a clause of kind 'near'; choose one of word, phrase, prefix, fuzzy"):
        Clause("fox", "near")


def test_the_first_two_parts_of_a_query_are_its_id_and_text() -> None:
    assert Query("q1", "fox") == Query(id="q1", text="fox")
