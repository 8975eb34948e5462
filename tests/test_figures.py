"""The figures of the docs: each quotes a table that was made from result lines, or is in the ledger with its source."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
MADE = "<!-- table:times -->\n| ms | p50 |\n| --- | --- |\n| exact | 41.865 |\n| pruned | 7.20 |\n<!-- /table -->\n"


@pytest.fixture(scope="module")
def scripts() -> Any:
    """Import a script of benchmarks/ by its name."""
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(ROOT / "benchmarks")
        yield importlib.import_module


@pytest.fixture(scope="module")
def quoted(scripts: Any) -> Any:
    return scripts("quoted_figures")


@pytest.fixture(scope="module")
def ledger(scripts: Any) -> dict[str, dict[str, Any]]:
    """The phrases of every page, with what they must say."""
    stated = scripts("stated_figures")
    parts = (scripts("prose_figures").measured(), stated.settings(), stated.OTHERS)
    return {page: {phrase: value for part in parts for phrase, value in part.get(page, {}).items()}
            for page in {page for part in parts for page in part}}  # fmt: skip


def tables(quoted: Any, page: str) -> list[str]:
    """The made tables of a page, and of the folder that is named after it."""
    path = ROOT / page
    files = [path, *path.with_suffix("").glob("*/tables.md")]
    return [found for file in files for found in quoted.MADE.findall(file.read_text(encoding="utf-8"))]


def wrong(quoted: Any, ledger: dict[str, dict[str, Any]], page: str, added: str = "") -> list[str]:
    """What is wrong with the figures of a page, after a text was added to it."""
    text = (ROOT / page).read_text(encoding="utf-8") + added
    return [f"{page}: {one}" for one in quoted.problems(text, tables(quoted, page), ledger.get(page, {}))]


@pytest.mark.parametrize("page", PAGES)
def test_every_figure_of_a_page_quotes_a_table_or_agrees_with_its_source(
    quoted: Any, ledger: dict[str, dict[str, Any]], page: str
) -> None:
    found = wrong(quoted, ledger, page)
    advice = "quote a table of the page, or enter it in benchmarks/prose_figures.py or stated_figures.py"
    assert not found, "\n".join([*found, advice])


def test_the_ledger_has_only_pages_that_exist(ledger: dict[str, dict[str, Any]]) -> None:
    assert ledger.keys() <= set(PAGES)


def test_every_table_is_what_the_result_lines_say(scripts: Any) -> None:
    for page, made in scripts("pages").page_tables().items():
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        changed = [
            name for name, table in made.items() if f"<!-- table:{name} -->\n{table}\n<!-- /table -->" not in text
        ]
        assert not changed, f"docs/{page}.md: run `python benchmarks/pages.py` to make these tables again"


def test_a_wrong_figure_in_a_page_is_named_with_its_line(quoted: Any, ledger: dict[str, dict[str, Any]]) -> None:
    lines = (ROOT / "docs/gpu.md").read_text(encoding="utf-8").count("\n")
    found = wrong(quoted, ledger, "docs/gpu.md", "A search takes\n0.123 ms, or 7.5 % of it.\n")
    assert found == [f"docs/gpu.md: {lines + 2}: '{one}' has no source" for one in ("0.123 ms", "7.5 %")]


def test_a_changed_digit_is_noticed_in_the_page_and_in_the_ledger(quoted: Any) -> None:
    assert not quoted.problems("It takes\n41.9 ms.", [], {"takes 41.9 ms": 41.865})
    assert quoted.problems("It takes 41.8 ms.", [], {"takes 41.9 ms": 41.865}) == [
        "'takes 41.9 ms' is in the ledger and 0 times in the page, not once",
        "1: '41.8 ms' has no source",
    ]
    [found] = quoted.problems("It takes 41.8 ms.", [], {"takes 41.8 ms": 41.865})
    assert found == "1: 'takes 41.8 ms' does not agree with its source, 41.865"
    assert quoted.problems("Twice as fast.", [], {"Twice as fast": False})


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("it takes 3.7 to 7.2 ms", [["3.7", "7.2"]]),
        ("| 2.0, −0.3 % | 12,000 |", [["2.0", "-0.3"]]),
        ("finds .995 of them, and 0.4 elsewhere", [[".995"]]),
        ("200 queries a second, 13.6\nGB, over 3 times as fast", [["200"], ["13.6"], ["3"]]),
        ("waits five seconds and is four times slower", [["five"], ["four"]]),
        ("768 slices, k = 1,000, seen four times, ± is half a 95 % interval", []),
        ("`--wait 60 s`, Python 3.11, [0.12 ms](a/0.34.md)", [["0.12"]]),
        (f"```\n0.75 ms\n```\n{MADE}", []),
    ],
)
def test_figures_are_numbers_with_units_and_long_decimals_outside_code_and_made_tables(
    quoted: Any, text: str, numbers: list[list[str]]
) -> None:
    assert [list(one.numbers) for one in quoted.figures(text)] == numbers


@pytest.mark.parametrize(
    ("text", "is_quoted"),
    [("41.865 ms", True), ("41.865 to 7.20 ms", True), ("41.9 ms", False), ("41.865 %", False), ("7.21 ms", False)],
)
def test_a_figure_quotes_a_table_that_has_its_digits_and_its_unit(quoted: Any, text: str, is_quoted: bool) -> None:
    [figure] = quoted.figures(text)
    assert quoted.is_quoted(figure, [MADE]) is is_quoted


def test_one_digit_is_too_little_to_quote_a_table(quoted: Any) -> None:
    [figure] = quoted.figures("it takes 7 ms")
    assert not quoted.is_quoted(figure, ["| ms | 7 |"])
