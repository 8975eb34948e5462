"""A text is cut at its own seams, no word is cut, and nothing is lost."""

from __future__ import annotations

import re
import textwrap
import time
from itertools import groupby, pairwise
from pathlib import Path
from unicodedata import category

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from denslice.corpus.markup import markup_of
from denslice.corpus.passages import LARGEST, OVERLAP, _sizes, cut
from denslice.records import Place

ROOT = Path(__file__).parents[1]
SENTENCE = "The quick brown fox jumps over the lazy dog near the old river bank. "  # far smaller than OVERLAP
LONG = round(0.6 * LARGEST / 135)  # sentences that fill more than half a passage: each has the size 135
GIANT = "Zm9v" * LARGEST  # base64, larger than any passage
IDEOGRAPH = re.compile(
    "[\u3005-\u3007\u3041-\u3096\u309d-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff]"
)
UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")

PIECES = (
    *(
        "word ",
        "Two words. ",
        "a",
        "x1_",
        "3.14 ",
        "example.com ",
        "\n",
        "\n\n",
        "\r\n",
        "\f",
        "\t",
        "    ",
        "- ",
        "1. ",
    ),
    *(
        "# A\n",
        "## B\n\n",
        "Title\n=====\n",
        "====\nOver\n====\n",
        "```\n",
        "~~~~\n",
        "---\n",
        "| a. b |\n",
        "#",
        ":",
        "@",
    ),
    *(
        "漢字",
        "かな。",
        "か\u3099",
        "ก",
        "เก่า",
        "ខ្មែរ",
        "မြန်",
        "e\u0301",
        "\u0301",
        "हिन्दी ",
        "👩\u200d💻",
        "🇩🇪",
        "👍🏽",
        "\ud83d",
        "\ude00",
    ),
    *('{"a":1},', "<b>x</b>", "…", "„Oh!“ ", "\u200b", "\u2028"),
)
texts = st.lists(st.tuples(st.sampled_from(PIECES) | st.text(max_size=4), st.integers(1, 300)), max_size=12).map(
    lambda parts: "".join(piece * count for piece, count in parts)
)


law = settings(deadline=None)


def size(text: str) -> int:
    return int(_sizes(text)[-1])


def words(text: str) -> list[str]:
    """The words between spaces; a space that carries a mark is a part of one."""
    marked = "".join("\0" if category(char).startswith("M") else char for char in text)
    return re.sub(r"\s+(?=\0)", "", marked).split()


def own_parts(text: str) -> list[str]:
    """The passages without what they repeat."""
    ends = [0, *(place.end for place in cut(text))]
    return [text[start:end] for start, end in pairwise(ends)]


def cuts(text: str) -> list[int]:
    return [place.end for place in cut(text)[:-1]]


def headings(text: str) -> list[str]:
    return [place.heading for place in cut(text)]


# --- laws


@law
@given(texts)
@example(GIANT)
@example(f"a {GIANT} b")
@example("漢字" + GIANT + "漢字" * LARGEST)
def test_passages_cover_the_text_in_order(text: str) -> None:
    places = cut(text)
    assert places[0].start == 0
    assert places[-1].end == len(text)
    for last, place in pairwise(places):
        assert last.start <= place.start <= last.end < place.end


@law
@given(texts)
def test_no_word_is_cut_and_no_mark_is_separated_from_its_letter(text: str) -> None:
    for at in {at for place in cut(text) for at in (place.start, place.end) if 0 < at < len(text)}:
        last, after = text[at - 1], text[at]
        assert not category(after).startswith("M")
        assert last.isspace() or "\u200d" not in (last, after)
        assert not ("\ud800" <= last < "\udc00" <= after < "\ue000")
        if re.match(r"\w\w", last + after):
            same_script = (IDEOGRAPH.match(last) and IDEOGRAPH.match(after)) or (UNSPACED.match(last + after))
            assert same_script, (last, after)


@law
@given(texts)
@example(f"a {GIANT} b")
@example(SENTENCE * LONG + GIANT + " " + SENTENCE * LONG)
@example("#" * 190 + "\U0003134b" * 7)
def test_only_a_single_word_is_larger_than_a_passage(text: str) -> None:
    own = 0
    for place in cut(text):
        if size(text[place.start : place.end]) > LARGEST:
            assert len(words(text[place.start : place.end])) <= 1
            assert not re.search(rf"(?:(?=\w){IDEOGRAPH.pattern}){{3}}", text[own : place.end])  # some are unassigned
        own = place.end


@law
@given(texts)
@example("漢字" + GIANT + "漢字" * LARGEST)
@example(GIANT + "漢字" * LARGEST)
@example("\x1b\U0003134b" * 108 + "\U00020000" * 2)  # not a letter to every version of Python
def test_neighbours_in_a_run_of_ideographs_are_together_in_a_passage(text: str) -> None:
    for last, place in pairwise(cut(text)):
        if IDEOGRAPH.match(text[last.end - 1]) and IDEOGRAPH.match(text[last.end]):
            assert place.start < last.end


@law
@given(texts)
def test_a_text_is_cut_the_same_every_time(text: str) -> None:
    assert cut(text) == cut("".join(list(text)))


@law
@given(texts)
def test_what_a_passage_repeats_is_not_larger_than_the_overlap(text: str) -> None:
    for last, place in pairwise(cut(text)):
        assert size(text[place.start : last.end]) <= OVERLAP


@law
@given(texts)
def test_a_page_is_counted_from_form_feeds(text: str) -> None:
    places = cut(text)
    if len(places) > 1:
        for last, place in pairwise(places):
            assert place.page == (text.count("\f", 0, last.end) + 1 if "\f" in text else None)


@law
@given(texts)
def test_a_text_that_fits_is_one_passage(text: str) -> None:
    assert (size(text) <= LARGEST) <= (cut(text) == [Place(0, len(text))])


# --- sizes


def test_an_empty_text_is_one_empty_passage() -> None:
    assert cut("") == [Place(0, 0)]


def test_a_short_text_with_a_heading_and_pages_is_one_passage_without_them() -> None:
    text = "# A\n\ntext\f more"
    assert cut(text) == [Place(0, len(text))]


def test_passages_of_prose_have_between_a_hundred_and_some_more_than_two_hundred_words() -> None:
    words = [len(part.split()) for part in own_parts(SENTENCE * 200)]
    assert all(80 <= count <= 280 for count in words[:-1]), words


def test_the_last_passage_is_not_a_leftover() -> None:
    for count in range(20, 60):
        assert len(own_parts(SENTENCE * count)[-1]) >= 2 * len(SENTENCE)


def test_a_giant_word_is_a_passage_of_its_own() -> None:
    text = f"{SENTENCE}{GIANT} {SENTENCE}"
    assert [place.end - place.start for place in cut(text)].count(len(GIANT) + 1) == 1
    assert f"{GIANT} " in [text[place.start : place.end] for place in cut(text)]


def test_minified_json_is_cut_between_its_values() -> None:
    parts = own_parts('{"name":"value","other":"thing"},' * LARGEST)
    assert len(parts) > 10
    assert all(part[-1] in ",}" for part in parts)


# --- seams


def test_prose_is_cut_at_sentences_and_repeats_the_last_one() -> None:
    text = SENTENCE * 100
    assert all(at % len(SENTENCE) == 0 for at in cuts(text))
    assert [place.start for place in cut(text)[1:]] == [at - len(SENTENCE) for at in cuts(text)]


@pytest.mark.parametrize("width", [60, 72, 79])
def test_hard_wrapped_prose_is_cut_at_sentences(width: int) -> None:
    sentences = (
        f"In {year} the {year} clever foxes met {'quite ' * (year % 5)}many others by the river. "
        for year in range(200)
    )
    text = textwrap.fill("".join(sentences), width)
    assert len(cuts(text)) > 5
    assert all(text[:at].rstrip().endswith("river.") for at in cuts(text))


@pytest.mark.parametrize("number", ["3.14", "example.com", "e.g. this", "Dr. Who", "et al. 2010"])
def test_a_dot_within_a_number_a_name_or_an_abbreviation_is_no_seam(number: str) -> None:
    text = f"It is about {number} and then some words more to fill the sentence up. " * 200
    assert len(cuts(text)) > 5
    assert all(text[:at].endswith("up. ") for at in cuts(text))


@pytest.mark.parametrize(
    "text",
    ["这是一个句子，里面有一些字。", "これは文です、いくつかの字があります。", "यह एक वाक्य है। ", "هل هذه جملة؟ "],
)
def test_sentences_of_other_scripts_are_seams(text: str) -> None:
    assert len(cuts(text * 800)) > 3
    assert all(at % len(text) == 0 for at in cuts(text * 800))


def test_paragraphs_are_better_seams_than_sentences() -> None:
    text = (SENTENCE * (LONG // 3) + "\n\n") * 20
    assert all(text[:at].endswith("\n\n") for at in cuts(text))


@pytest.mark.parametrize(
    "line",
    [
        "2024-05-17 12:00:00 INFO request done. Waiting for the next one of user 17\n",
        "INFO the worker has started and is waiting. It listens on its port\n",
        "| a cell. With two sentences | another cell. And one more. Sentence |\n",
        "total = total + price * count  # a comment. It goes on here\n",
        "name\t17\t3.5\tsome text. And more\n",
    ],
)
def test_logs_tables_and_code_are_cut_at_lines(line: str) -> None:
    assert len(cuts(line * 200)) > 5
    assert all(at % len(line) == 0 for at in cuts(line * 200))


def test_lists_are_cut_at_their_items() -> None:
    text = "- The first sentence of an item. The second one goes on\n  in the next line. And a third one.\n" * 200
    assert len(cuts(text)) > 3
    assert sum(text[at] != "-" for at in cuts(text)) <= 1  # one sentence may save a passage


def test_text_without_any_stop_is_cut_between_words() -> None:
    text = "some words without an end " * 400
    assert len(cuts(text)) > 5
    assert all(text[at - 1] == " " for at in cuts(text))


def test_thai_is_cut_before_base_letters_only() -> None:
    text = "เก่าน้ำ" * LARGEST  # a vowel, its consonant, a tone mark and a vowel; a consonant, a tone mark and a vowel
    assert len(cuts(text)) > 5
    assert {at % len("เก่าน้ำ") for at in cuts(text)} <= {0, len("เก่า")}


# --- code


def fenced(lines: int) -> str:
    return "```python\n" + "# no heading\n\nvalue = compute(value)\n" * lines + "```\n"


def test_a_code_block_that_fits_is_not_cut() -> None:
    block = fenced(round(0.6 * LARGEST / size("# no heading\n\nvalue = compute(value)\n")))
    for count in range(1, LONG):
        text = SENTENCE * count + "\n\n" + block + "\n" + SENTENCE * LONG
        start = text.index("```")
        assert not [at for at in cuts(text) if start < at < start + len(block)]


def test_an_indented_block_that_fits_is_not_cut() -> None:
    line = "    value = compute(value)\n\n"
    block = line * round(0.6 * LARGEST / size(line))
    for count in range(1, LONG):
        text = SENTENCE * count + "\n\n" + block + SENTENCE * LONG
        assert not [at for at in cuts(text) if text.index("    ") < at < text.rindex("    ")]


def test_a_code_block_that_does_not_fit_is_cut_at_lines() -> None:
    text = fenced(200)
    assert all(text[at - 1] == "\n" for at in cuts(text))
    assert set(headings(text)) == {""}


def test_comments_of_a_program_are_no_headings() -> None:
    text = "import os\n\n# Settings\n\nvalue = os.name\n\n# More\n\nother = value\n\n" * 40
    assert set(headings(text)) == {""}


def test_a_function_is_not_cut_from_its_first_line() -> None:
    text = "".join(
        f"@cache\ndef function_{n}(value):\n" + "    value = value + 1\n" * (n % 19) + "    return value\n\n\n"
        for n in range(60)
    )
    assert len(cuts(text)) > 5
    assert all(text[at:].startswith("@cache") for at in cuts(text))


PYTHON = """\
import os

{fill}

# Comment

class Index(Base):
    \"\"\"An example.

        def example(x):
            pass
    \"\"\"

{inner}

    @cache
    # Why.
    def search(self, query):
{deep}

    async def add(
        self,
    ) -> None:
{deep}

{inner}

def main() -> None: ...

if __name__ == "__main__":
{inner}
"""


def test_classes_and_functions_are_headings_nested_by_their_indentation() -> None:
    statements = {"fill": 0, "inner": 4, "deep": 8}
    fill = {name: f"{' ' * columns}value = compute(value)\n" * 30 for name, columns in statements.items()}
    text = PYTHON.format(**fill)
    found = [heading for heading, _ in groupby(headings(text))]
    assert found == [
        *("", "class Index", "class Index › def search", "class Index › def add", "class Index"),
        *("def main", ""),
    ]
    assert any(text[at:].startswith("    @cache\n    # Why.") for at in cuts(text))


def defined(text: str) -> list[str]:
    """The headings of a program, each before a long body."""
    return [heading.text for heading in markup_of(text).headings if heading.text]


LANGUAGES = {
    "Java": """
public final class A<T> extends B {
    @Override
    public List<T> get(int k) throws E {
        if (k) {
        }
    }

    enum Kind { X }
}
""",
    "Rust": """
/// Docs.
pub struct A<'a> {
}

impl<'a> Display for A<'a> {
    pub(crate) async fn get(&self) -> X {
        match f(x) {
        }
    }
}
""",
    "TypeScript": """
export default class A extends B {
  constructor(a: string) {
  }

  get size() {
  }
}

export const f = async (a: number): Promise<void> => {
  g(() => {
  });
};

test('x', () => {
});
""",
    "Go": """
func (r *Reader) Read(p []byte) (int, error) {
\tgo func() {
\t}()
}

type A struct {
}
""",
    "C and C++": """
static int
main (int argc, char **argv)
{
  return 0;
}

class Foo;

int A::size() const
{
  return 1;
}
""",
    "C#": """
namespace A
{
    public class B : C
    {
        void D()
        {
            x();
        }
    }
}
""",
    "Ruby": """
module A
  class B < C
    def ok?
      true
    end
  end
end
""",
    "Lua": """
local function a(x)
  return x
end

function M.b()
  return 1
end
""",
    "R": """
## Section ----

search <- function(x, k = 10) {
  x
}

add = function(x) {
}
""",
    "shell": """
# Comment

run() {
  if [ x ]; then
    y
  fi
}

# Another

run
""",
    "Elixir": """
defmodule A.B do
  def f(x) do
    x
  end
end
""",
    "CSS": """
nav:not(.x) {
  a: b;
}

@media (max-width: 1px) {
  a:hover {
  }
}
""",
}


@pytest.mark.parametrize(
    ("language", "found"),
    [
        ("Java", ["class A", "get()", "enum Kind"]),
        ("Rust", ["struct A", "impl Display for A", "fn get"]),
        ("TypeScript", ["class A", "constructor()", "size()", "f()"]),
        ("Go", ["func Read", "type A"]),
        ("C and C++", ["main()", "A::size()"]),
        ("C#", ["namespace A", "class B", "D()"]),
        ("Ruby", ["module A", "class B", "def ok?"]),
        ("Lua", ["function a", "function M.b"]),
        ("R", ["search()", "add()"]),
        ("shell", ["run()"]),
        ("Elixir", ["defmodule A.B", "def f"]),
        ("CSS", []),
    ],
)
def test_definitions_of_many_languages_are_headings(language: str, found: list[str]) -> None:
    assert defined(LANGUAGES[language].lstrip()) == found


@pytest.mark.parametrize(
    "text",
    [
        "The\nclass action (see below) is\nfunction of time:\n\n    def indented(x):\n        pass\n",
        "class Foo\nfunction bar\nmodule baz\n",
        'Example response (200 OK)\n{\n  "a": 1\n}\n',
        "# Title\n\nSome text.\n\nexport const x = () => {\n};\n\n# More\n\nText.\n",
        "# Title\n\n```js\nfunction f() {\n}\n```\n",
        "## One\n\ntext\n\n## Two\n\nclass A:\n    x = 1\n\n## Three\n",
    ],
)
def test_prose_has_no_definitions(text: str) -> None:
    assert not [
        heading for heading in defined(text) if "(" in heading or heading.split()[0] in ("class", "def", "function")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "# Server\n\nserver:\n  host: a\n  port: 1\n  paths:\n    - /x\n\n# Client\n\nclient:\n  retries: 3\n",
        "# Server\n\n[server]\nhost = 1\nport = 2\n\n# Client\n\n[client]\nretries = 3\n",
        "# Build\n\n.PHONY: all\n\nall:\n\tmake\n",
        "#ifndef X_H\n\n# define X 1\n\n#endif\n",
        "#\tinclude <x>\n\n#include <y>\n",
    ],
)
def test_comments_of_settings_and_macros_are_no_headings(text: str) -> None:
    assert not defined(text)


def test_sections_of_latex_are_headings() -> None:
    text = (
        section("\\section{One}\\label{a}") + section("\\subsection*[s]{Two \\emph{x}}") + section("\\section{Three}")
    )
    assert headings(text) == ["One", "One › Two \\emph{x}", "Three"]


def test_a_long_comment_above_a_function_may_be_cut() -> None:
    comment = "".join(f" * Line {n} of a comment that goes on and on about the function below it.\n" for n in range(40))
    text = f"int x;\n\n/**\n{comment} */\nint f(int a)\n{{\n    return a;\n}}\n" * 3
    assert all(text[at - 1] == "\n" for at in cuts(text))


def test_front_matter_is_not_cut_and_is_no_heading() -> None:
    text = "---\ntitle: A\n\ndate: B\n---\n\n" + SENTENCE * LONG * 3
    assert headings(text)[0] == ""
    assert cuts(text)[0] > text.rindex("---")


def test_a_rule_at_the_start_is_no_front_matter() -> None:
    text = "---\n\n" + section("# A") + section("# B") + "---\n"
    assert headings(text) == ["", "B"]


# --- headings and pages


def section(heading: str) -> str:
    return f"{heading}\n\n{SENTENCE * LONG}\n\n"


def test_sections_are_passages_with_the_path_of_their_headings() -> None:
    text = section("# A") + section("## B ##") + section("### C#") + section("## D") + section("# E")
    assert headings(text) == ["A", "A › B", "A › B › C#", "A › D", "E"]


def test_underlined_headings_have_levels_in_order_of_their_first_use() -> None:
    text = section("====\nBook\n====") + section("One\n===") + section("Two\n~~~~") + section("Three\n=====")
    assert headings(text) == ["Book", "Book › One", "Book › One › Two", "Book › Three"]


def test_underlines_of_markdown_are_levels_one_and_two() -> None:
    text = section("# A") + section("A longer title\n---") + section("### Deep") + section("Next\n====")
    assert headings(text) == ["A", "A › A longer title", "A › A longer title › Deep", "Next"]


def test_every_passage_of_a_long_section_has_its_path() -> None:
    found = headings(section("# A") + "## B\n\n" + SENTENCE * LONG * 6)
    assert len(found) > 4
    assert found == ["A", *["A › B"] * (len(found) - 1)]


def test_no_passage_ends_with_a_heading() -> None:
    for count in range(1, 3 * LONG):
        text = SENTENCE * count + "\n\n# Heading\n\n## Another\n\n" + SENTENCE * LONG
        assert not [part for part in own_parts(text) if part.rstrip().endswith(("Heading", "Another"))]


def test_a_passage_does_not_repeat_what_is_before_a_heading() -> None:
    text = section("# A") + section("# B")
    assert [place.start for place in cut(text)] == [0, text.index("# B")]


def test_short_sections_share_a_passage() -> None:
    text = "".join(f"## Option {n}\n\n{SENTENCE}\n\n" for n in range(100))
    assert len(cut(text)) <= 50


def test_a_heading_after_blank_lines_is_the_heading_of_the_first_passage() -> None:
    assert headings("\n\n" + section("# A") + section("# B")) == ["A", "B"]


def test_pages_begin_at_form_feeds() -> None:
    text = "\f".join([SENTENCE * LONG] * 3)
    assert [(text[place.start : place.end].count("\f"), place.page) for place in cut(text)] == [(1, 1), (1, 2), (0, 3)]


def test_without_form_feeds_there_are_no_pages() -> None:
    assert {place.page for place in cut(SENTENCE * 100)} == {None}


# --- real files and hostile ones


@pytest.mark.parametrize(
    "name", ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "pyproject.toml", "src/denslice/records.py"]
)
def test_files_of_this_repository_are_cut_at_lines_or_sentences(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert len(cuts(text)) > 1
    assert all(re.search(r"(\n|[.!?;:][\"'”’»)\]]*[ \t]+)\Z", text[:at]) for at in cuts(text))


def assert_linear(short: str, long: str) -> None:
    """Cutting eight times the text takes far less than the sixty-four times that quadratic work would take."""

    def seconds(text: str) -> float:
        begin = time.process_time()
        cut(text)
        return time.process_time() - begin

    assert len(long) <= 8 * len(short)
    least = min(seconds(short) for _ in range(3))
    assert min(seconds(long) for _ in range(2)) < 30 * max(least, 0.002)


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "#",
            "# ",
            "# a\n\n",
            "-",
            "\n-",
            "---\nab\n",
            "=",
            "abc\n===\n\n",
            "`",
            "```\n",
            "~~~~\nab\n",
            " ",
            "\n",
            "\n ",
            "\t",
        ),
        *(
            ".",
            ". ",
            ".)",
            '."',
            "1. ",
            "a b ",
            "abcd",
            "\f",
            "x\f",
            "| a. b |\n",
            "a:\n    b\n",
            "    x\n",
            '{"a":1},',
        ),
        *(
            "def f(x):\n    a\n",
            "f(x) {\n",
            "*/\nf() {\n",
            "class A {\n\n",
            '"""\n',
            "\\\\section{a\n",
            "// a\n",
            "a a a (\n{\n",
        ),
        *("漢字", "。", "。)", "กา", "\u0301", "a\u0301", "👩\u200d", "🇩🇪", "\ud83d\ude00", "\u200b"),
    ],
)
def test_the_work_to_cut_a_hostile_text_grows_with_its_length(unit: str) -> None:
    assert_linear(unit * (8_000 // len(unit)), unit * (8 * 8_000 // len(unit) - 8))


@pytest.mark.parametrize(
    ("start", "run", "end"),
    [("# ", " ", "x"), ("x\n", " ", "y"), ("a.", " ", "\n"), (".", '"', "x"), ("a ", "=", "x\n")],
)
def test_one_long_run_of_signs_is_read_once(start: str, run: str, end: str) -> None:
    assert_linear(start + run * 8_000 + end, start + run * 64_000 + end)
