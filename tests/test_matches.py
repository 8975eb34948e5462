"""Marks and excerpts: right on short texts, bounded on long ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from denslice.cli.hits_output import snippet
from denslice.search.matches import EXCERPT_WINDOW, MATCHED_CHARACTERS, excerpt, matches, text_analyzer

words = text_analyzer({"analysis": 2, "language": "english"})


def test_words_are_marked_where_they_stand() -> None:
    spans = matches("Cats, cat and CATS; concatenate.", {"cat"}, words)
    assert [(span.start, span.end) for span in spans] == [(0, 4), (6, 9), (14, 18)]


def test_pairs_of_characters_are_marked_in_scripts_without_spaces() -> None:
    spans = matches("見て東京都へ", {"東京", "京都"}, words)
    assert [(span.start, span.end, span.token) for span in spans] == [(2, 4, "東京"), (3, 5, "京都")]


def test_only_the_beginning_of_a_text_is_looked_at() -> None:
    text = "cat " * MATCHED_CHARACTERS
    spans = matches(text, {"cat"}, words)
    assert len(spans) == MATCHED_CHARACTERS // 4
    assert spans[-1].end <= MATCHED_CHARACTERS


def test_a_word_that_the_bound_cuts_in_half_is_not_marked() -> None:
    text = "x" * (MATCHED_CHARACTERS - 4) + " catsup"
    assert matches(text, {"cat"}, words) == []
    assert matches(text[:MATCHED_CHARACTERS], {"cat"}, words) != []


def test_an_identifier_is_marked_as_a_whole_or_by_the_part_that_matches() -> None:
    assert [span[:2] for span in matches("call parseDate now", {"pars", "date"}, words)] == [(5, 10), (10, 14)]
    assert [span[:2] for span in matches("see datetime.date", {"datetime.date", "date"}, words)] == [(4, 17)]


def test_words_are_marked_in_each_language_of_the_collection() -> None:
    both = text_analyzer({"analysis": 2, "language": None}, ["english", "german"])
    assert [span[:2] for span in matches("Häuser and houses", {"haus", "hous"}, both)] == [(0, 6), (11, 17)]


def test_one_character_of_a_pair_is_marked_alone() -> None:
    assert [span[:2] for span in matches("東京都", {"京"}, words)] == [(1, 2)]


def test_an_excerpt_is_where_the_most_different_tokens_are() -> None:
    text = "cat " * 50 + "filler " * 200 + "here a dog chases a cat. " + "more " * 400
    start, end = excerpt(text, {"cat", "dog", "chase"}, words, 400, 30)
    assert "here a dog chases a cat." in text[start:end]
    assert text[start - 1] == " "


def test_a_match_in_a_text_without_spaces_is_in_its_excerpt() -> None:
    text = "。".join("見" * 9 for _ in range(300)) + "。東京。" + "見" * 3_000
    start, end = excerpt(text, {"東京"}, words, 200, 30)
    assert "東京" in text[start:end]


@given(
    st.lists(st.sampled_from(["cat", "dog", "owl", "x", "\n", "東京", "y" * 50]), max_size=400).map(" ".join),
    st.integers(100, 2_000),
    st.integers(0, 40),
)
def test_an_excerpt_is_never_longer_than_asked_and_shows_what_can_be_shown(text: str, width: int, lead: int) -> None:
    tokens = {"cat", "dog", "東京"}
    start, end = excerpt(text, tokens, words, width, lead)
    assert 0 <= start <= end <= len(text)
    assert end - start <= width
    spans = matches(text, tokens, words)
    near = min(EXCERPT_WINDOW, width - 2 * lead)

    def variety(at: int) -> int:
        return len({span.token for span in spans if at <= span.start <= at + near})

    best = max((variety(span.start) for span in spans), default=0)
    first = next((span for span in spans if variety(span.start) == best), None)
    if first is not None:
        assert start <= first.start < end


def test_a_snippet_of_a_long_text_is_short_and_says_that_there_is_more() -> None:
    text = "A cat sat. " + "x" * MATCHED_CHARACTERS + " cat"
    shown = snippet(text, {"cat", "sat"}, words, 160)
    assert shown.plain.startswith("A cat sat. x")
    assert shown.plain.endswith(" …")
    assert len(shown.plain) <= 162
    assert len(shown.spans) == 2
