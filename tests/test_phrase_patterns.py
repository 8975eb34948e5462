"""Tests of search/phrase_patterns.py: what a look at the letters of a text says is what its words say."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from denslice.analysis.analyzer import Analyzer
from denslice.search.conditions import follow_each_other, in_a_row
from denslice.search.phrase_patterns import phrase_patterns

SIGNS = [*",.-_'’:/#+@…™", "\u00ad", "\u200b", "\u200d"]
LETTERS = [*"AB1éÉßẞſŉİiıöЖжё१½²℡ﬁ狐ﷺ🈁🦊", "ab", "23", "fi", "e\u0301", "ss", "狐狸", "狸が", "กขค", "กข"]
CODE = ["parseDate", "HTTPResponse", "x_value", "foo_b_bar", "c++", "C#", "#tag", "a.b.c", "v1.2", "www.a.b/ss"]
WORDS = ["Straße", "STRASSE", "in", "In", "IN", "the", "The", "model", "Model,", "model.", "l'amour", "dog's"]
DOTTED = ["U.S.", "u.s", "1,000", "1000", "ANALYSIS.In"]
PARTS = [*SIGNS, *LETTERS, *CODE, *WORDS, *DOTTED, *[" "] * 24]
pasted = st.lists(st.sampled_from(PARTS), max_size=10).map("".join)
tiny = st.text(st.sampled_from("abABs' ._-ß "), max_size=12)
anything = st.text(max_size=12)


def assert_right(text: str, phrase: str, is_prefix: bool) -> None:
    spans = Analyzer().spans
    if words := in_a_row(spans(phrase)):
        verdict = phrase_patterns(words, is_prefix).verdict(text)
        assert verdict in (None, follow_each_other(words, spans(text), is_prefix))


@settings(max_examples=60)
@given(text=pasted, phrase=pasted, is_prefix=st.booleans())
@example(text="Intel™ chips", phrase="intel chips", is_prefix=False)
@example(text="a 1,000", phrase="a 10", is_prefix=True)
@example(text="the 🈁 model", phrase="🈁", is_prefix=False)
@example(text="ß.A", phrase="ssa", is_prefix=False)
def test_a_verdict_is_what_the_words_of_the_text_say(text: str, phrase: str, is_prefix: bool) -> None:
    assert_right(text, phrase, is_prefix)


@settings(max_examples=60)
@given(before=pasted, phrase=pasted, other=st.sampled_from(PARTS), after=pasted, is_prefix=st.booleans())
def test_a_text_with_the_phrase_is_not_rejected(
    before: str, phrase: str, other: str, after: str, is_prefix: bool
) -> None:
    for typed in (phrase, phrase.upper(), phrase.title(), phrase.replace(" ", other)):
        assert_right(f"{before}{typed}{after}", phrase, is_prefix)
        assert_right(f"{before} {typed} {after}", phrase, is_prefix)


@settings(max_examples=80)
@given(
    begin=st.sampled_from(["ab", "abX", "ab l"]),
    single=st.sampled_from([" x", "'l", "_s", " ß"]),
    count=st.integers(0, 40),
    end=st.sampled_from(["cd", "'cd", " cd"]),
)
@example(begin="ab l", single="'l", count=30, end="'cd")
def test_a_verdict_is_right_behind_many_single_letters(begin: str, single: str, count: int, end: str) -> None:
    assert_right(f"{begin}{single * count}{end}", "ab cd", False)


def test_a_text_of_single_letters_is_read_once() -> None:
    """In minutes, if the time grew with the square of their number."""
    assert phrase_patterns(("a", "zz")).verdict("zz " + "a " * 200_000) is None


@settings(max_examples=80)
@given(text=tiny, phrase=tiny, is_prefix=st.booleans())
@example(text="c++A l'amour", phrase="c++ A", is_prefix=False)
@example(text="ßßß ab", phrase="ab", is_prefix=False)
@example(text="Model,i A +In+", phrase="model i", is_prefix=False)
def test_a_verdict_is_right_where_letters_stand_alone(text: str, phrase: str, is_prefix: bool) -> None:
    assert_right(text, phrase, is_prefix)
    assert_right(f"{phrase[:4]}{text}", phrase[:4], is_prefix)


@given(before=anything, phrase=anything, after=anything, cut=st.integers(0, 12), is_prefix=st.booleans())
def test_a_verdict_is_right_for_any_characters(before: str, phrase: str, after: str, cut: int, is_prefix: bool) -> None:
    assert_right(before + phrase + after, phrase, is_prefix)
    assert_right(before + phrase + after, phrase[:cut], is_prefix)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("We use the model.", True),
        ("The Model is old", True),
        ("no such words", False),
        ("the old model", False),
        ("bathe models", False),
        ("die Städte, the modell", False),
        ("भारत the old", False),
        ("see (the model)", True),
        ("the - model", None),
        ("seeTheModel", None),
        ("the m.o.d.e.l", None),
        ("ｔｈｅ model", None),
    ],
)
def test_most_texts_need_not_be_split(text: str, verdict: bool | None) -> None:
    assert phrase_patterns(("the", "model")).verdict(text) is verdict
