"""Highlights: marked snippets of a hit, as values."""

from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from denslice import Index
from denslice.marked_text import Highlight
from denslice.rankings import Hit
from denslice.search.highlights import highlights
from denslice.search.matches import text_analyzer

words = text_analyzer({"analysis": 2, "language": "english"})
TEXTS = st.lists(
    st.sampled_from(["cats", "<b>", "&amp;", "dog", "東京都", "x\x1b[0m", "\n\n", "naïve", "."]), max_size=300
)


def test_words_of_the_query_are_marked_in_the_title_and_in_passages(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx", "bm25")
    index.add([{"id": "1", "title": "On cats", "text": "A dog chases <b>Cats</b> & mice."}])
    title, text = index.search("cat dogs")[0].highlights
    assert (title.field, title.html()) == ("title", "On <mark>cats</mark>")
    assert text.html() == "A <mark>dog</mark> chases &lt;b&gt;<mark>Cats</mark>&lt;/b&gt; &amp; mice."
    assert text.html("[", "]") == "A [dog] chases &lt;b&gt;[Cats]&lt;/b&gt; &amp; mice."
    assert text.terminal() == "A \x1b[1mdog\x1b[0m chases <b>\x1b[1mCats\x1b[0m</b> & mice."


def test_a_snippet_of_a_long_text_is_around_the_words_and_says_where_it_is(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx", "bm25")
    text = "filler words here. " * 60 + "The zeppelin rises. " + "more filler words. " * 60
    index.add([{"id": "1", "text": text}])
    (hit,) = index.search("zeppelin")
    one = hit.highlights[0]
    assert one.text == text[one.start : one.start + len(one.text)]
    assert [one.text[start:end] for start, end in one.marks] == ["zeppelin"]
    assert len(one.text) < 300


def test_a_corrected_word_is_marked(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx", "bm25")
    index.add([{"id": "1", "text": "a parcel for you"}])
    assert index.search("parcle")[0].highlights[0].html() == "a <mark>parcel</mark> for you"


def test_a_hit_of_a_run_has_no_highlights() -> None:
    assert Hit("1", 1.0, 1.0, 0.0, "cats").highlights == ()


class Tags(HTMLParser):
    """Collects the tags of a text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)


@given(TEXTS.map(" ".join), st.sampled_from(["", "cats & <i>dogs</i>"]))
@settings(max_examples=60)
def test_every_highlight_is_a_substring_and_safe(text: str, title: str) -> None:
    hit = Hit("1", 1.0, 1.0, 0.0, text, title)
    for one in highlights(hit, {"cat", "dog", "東京", "naiv"}, words):
        field = title if one.field == "title" else text
        assert field[one.start : one.start + len(one.text)] == one.text
        assert one.marks == tuple(sorted(one.marks))
        assert all(0 <= start < end <= len(one.text) for start, end in one.marks)
        assert all(before[1] <= after[0] for before, after in zip(one.marks, one.marks[1:], strict=False))
        tags = Tags()
        tags.feed(one.html())
        assert set(tags.tags) == {"mark"}
        assert unescape(one.html().replace("<mark>", "").replace("</mark>", "")) == one.text
        assert one.terminal().replace("\x1b[1m", "").replace("\x1b[0m", "").isprintable()


@pytest.mark.parametrize(("marks", "html"), [((), "a b"), (((0, 1), (2, 3)), "<mark>a</mark> <mark>b</mark>")])
def test_marks_are_tags(marks: tuple[tuple[int, int], ...], html: str) -> None:
    assert Highlight("text", "a b", 0, marks).html() == html
