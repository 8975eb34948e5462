"""The page asked as people ask, in ten scripts: completed, corrected, filtered, paged, and read from the right."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from browsing import CHROMIUM, NO_CHROMIUM, Page, ask, chromium, hit, ids, opened_page
from denslice import Index
from serving import Live, live
from ten_scripts import FACTS, QUESTIONS, documents, ten_scripts_index

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; it comes with the extra dev")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)

RIGHT_TO_LEFT = ("Arabic", "Hebrew")
DIRECTION = "one => getComputedStyle(one).direction"
MISSPELT = "bees recieve polen"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return ten_scripts_index(str(tmp_path_factory.mktemp("scripts") / "scripts.idx"))


@pytest.fixture(scope="module")
def served(index: Index) -> Iterator[Live]:
    with live(index) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def page(browser: Any, served: Live) -> Iterator[Page]:
    with opened_page(browser, served.address) as opened:
        yield opened


def options(page: Page) -> Page:
    return page.get_by_role("option")


def facet(page: Page, value: str) -> Page:
    return page.locator("#facets").get_by_role("button", name=value)


def type_text(page: Page, text: str) -> None:
    """Type a text and wait until it is completed."""
    with page.expect_response("**/suggest?*"):
        page.get_by_label("Query").press_sequentially(text)
    options(page).first.wait_for()


def late(held: list[Any]) -> None:
    """Answer requests for completions that were held back."""
    assert held
    for route in held:
        route.fulfill(json={"suggestions": ["too late"]})


def parameters(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


# --- scripts


@pytest.mark.parametrize("language", FACTS)
def test_a_question_in_each_script_finds_its_document_with_its_words_marked(page: Page, language: str) -> None:
    question = QUESTIONS[language]
    ask(page, question.text)
    assert ids(page)[0] == question.id
    found = page.locator(".hit").first
    assert question.marked in found.locator(".text mark").all_inner_texts()
    assert "".join(found.locator(".text").all_inner_texts()) in [one["text"] for one in documents()]
    direction = "rtl" if language in RIGHT_TO_LEFT else "ltr"
    for place in (found.locator("h2"), found.locator(".text"), page.get_by_label("Query")):
        assert place.evaluate(DIRECTION) == direction


def test_a_text_from_the_right_stands_at_the_right(page: Page) -> None:
    ask(page, QUESTIONS["Hebrew"].text)
    title, box = hit(page, "Hebrew-0").locator("h2"), hit(page, "Hebrew-0").bounding_box()
    left, right = title.evaluate(
        """one => { const drawn = document.createRange(); drawn.selectNodeContents(one);
        const place = drawn.getBoundingClientRect(); return [place.left, place.right]; }"""
    )
    assert left > box["x"] + box["width"] / 2
    assert right < hit(page, "Hebrew-0").locator(".score").bounding_box()["x"]


def test_the_page_tells_which_languages_the_model_does_not_know(page: Page, index: Index) -> None:
    told = page.locator("#languages").inner_text()
    assert told.startswith("Dense vectors: English only; words decide for ")
    assert all(language in told for language in FACTS)
    assert index.info().model_languages == ("english",)


def test_a_page_of_languages_that_the_model_knows_tells_nothing(browser: Any, tmp_path: Any) -> None:
    english = Index.create(tmp_path / "english.idx")
    english.add([one for one in documents() if one["language"] == "English"])
    with live(english) as running, opened_page(browser, running.address) as page:
        assert page.locator("#languages").inner_text() == ""


# --- completions


def test_the_box_is_completed_as_the_index_suggests(page: Page, index: Index) -> None:
    type_text(page, "the be")
    assert options(page).all_inner_texts() == index.suggest("the be", 8)
    box = page.get_by_role("combobox", name="Query")
    assert box.get_attribute("aria-expanded") == "true"
    box.press("ArrowDown")
    active = page.locator(f"#{box.get_attribute('aria-activedescendant')}")
    assert active.get_attribute("aria-selected") == "true"
    assert box.input_value() == active.inner_text() == index.suggest("the be", 8)[0]
    box.press("ArrowUp")
    assert box.input_value() == "the be"
    box.press("ArrowUp")
    assert box.input_value() == index.suggest("the be", 8)[-1]
    box.press("Escape")
    assert box.input_value() == "the be"
    assert box.get_attribute("aria-expanded") == "false"
    assert options(page).count() == 0


def test_enter_searches_what_the_box_shows(page: Page) -> None:
    type_text(page, "космо")
    page.keyboard.press("ArrowDown")
    with page.expect_response("**/search") as answered:
        page.keyboard.press("Enter")
    assert json.loads(answered.value.request.post_data)["query"] == "космос"
    hit(page, "Russian-1").wait_for()
    assert options(page).count() == 0


def test_enter_does_not_wait_for_completions(page: Page) -> None:
    held: list[Any] = []
    page.route("**/suggest?*", lambda route: held.append(route))
    box = page.get_by_label("Query")
    with page.expect_request("**/suggest?text=bee&*"):
        box.press_sequentially("bee")
    with page.expect_response("**/search") as answered:
        box.press("Enter")
    assert json.loads(answered.value.request.post_data)["query"] == "bee"
    late(held)
    hit(page, "English-3").wait_for()
    assert options(page).count() == 0


def test_the_last_text_is_completed_even_if_an_earlier_answer_is_late(page: Page) -> None:
    held: list[Any] = []
    page.route("**/suggest?text=be&*", lambda route: held.append(route))
    with page.expect_request("**/suggest?text=be&*"):
        page.get_by_label("Query").press_sequentially("be")
    type_text(page, "r")
    late(held)
    assert options(page).all_inner_texts() == ["berliner"]


def test_a_click_on_a_completion_fills_the_box(page: Page) -> None:
    type_text(page, "עתיק")
    options(page).first.click()
    box = page.get_by_label("Query")
    assert box.input_value() == "עתיקה"
    assert box.evaluate("box => box === document.activeElement")
    assert options(page).count() == 0


# --- how a query was understood


def test_a_misspelt_word_is_corrected_unless_what_was_typed_is_searched(page: Page, index: Index) -> None:
    ask(page, MISSPELT)
    assert ids(page)[0] == "English-3"
    told = page.locator("#corrections")
    assert told.inner_text().startswith("Showing results for receive instead of recieve, pollen instead of polen.")
    with page.expect_response("**/search") as answered:
        told.get_by_role("link", name="Search exactly what was typed").click()
    assert json.loads(answered.value.request.post_data)["fuzzy"] is False
    told.get_by_text("exactly what was typed").wait_for()
    assert ids(page) == list(index.search(MISSPELT, fuzzy=False).ids)
    assert parameters(page)["exact"] == ["1"]
    page.go_back()
    told.get_by_text("instead of recieve").wait_for()
    ask(page, "bees")
    assert told.is_hidden()


def test_conditions_of_a_query_are_shown(page: Page, index: Index) -> None:
    typed = 'sea "in about 27 days" -egypt topic:nature'
    ask(page, typed)
    assert ids(page) == ["English-0"]
    chips = page.get_by_role("list", name="Conditions").get_by_role("listitem").all_inner_texts()
    assert chips == list(index.explain(typed, "English-0").conditions)
    assert len(chips) == 3
    ask(page, "sea")
    assert page.get_by_role("list", name="Conditions").is_hidden()


# --- around the results


def counts(page: Page, field: str) -> dict[str, int]:
    values = page.locator("#facets section", has_text=field).locator(".facet")
    shown = [one.all_inner_texts() for one in (values.locator(".value"), values.locator(".count"))]
    return dict(zip(shown[0], map(int, shown[1]), strict=True))


def test_facets_count_and_filter_and_do_not(page: Page, index: Index) -> None:
    ask(page, "the sea")
    expected = index.search("the sea", facets=["topic"])
    assert counts(page, "topic") == expected.facets["topic"]
    assert page.locator("#matching").inner_text() == f"{expected.matching} matching documents"
    with page.expect_response("**/search"):
        facet(page, "nature").click()
    sync_api.expect(facet(page, "nature")).to_have_attribute("aria-pressed", "true")
    assert ids(page) == list(index.search("the sea", where={"topic": "nature"}).ids)
    page.reload()
    sync_api.expect(facet(page, "nature")).to_have_attribute("aria-pressed", "true")
    with page.expect_response("**/search"):
        facet(page, "nature").click()
    sync_api.expect(facet(page, "nature")).to_have_attribute("aria-pressed", "false")
    assert ids(page) == list(expected.ids)


def test_all_values_of_a_facet_are_shown_on_demand(page: Page) -> None:
    page.get_by_text("Dense", exact=True).click()
    ask(page, "rivers")
    assert page.locator("#facets .facet:visible", has_text="e").count() < len(FACTS)
    page.get_by_role("button", name="3 more").click()
    assert set(counts(page, "language")) == set(FACTS)
    assert page.locator("#facets .facet").nth(8).evaluate("one => one === document.activeElement")


def test_facets_fold_on_a_narrow_screen(browser: Any, served: Live) -> None:
    phone = browser.new_page(viewport={"width": 360, "height": 740})
    phone.goto(f"{served.address}/?q=the+sea")
    phone.locator(".hit").first.wait_for()
    assert not facet(phone, "nature").is_visible()
    phone.get_by_text("Fields").click()
    facet(phone, "nature").wait_for()
    assert phone.evaluate("document.documentElement.scrollWidth") <= 360
    phone.close()


def test_pages_by_cursor_show_every_document_once(page: Page, index: Index) -> None:
    question = "река Европы, die Stadt, the sea, 中国, ของประเทศไทย, η Αθήνα, 日本で, भारत में है, מים, النيل, 산으로"
    ask(page, question)
    expected = list(index.search(question, len(documents())).ids)
    assert len(expected) > 20
    page.locator(".hit").first.get_by_role("button", name="Why").click()
    while page.get_by_role("button", name="Show more").is_visible():
        shown = len(ids(page))
        with page.expect_response("**/search"):
            page.get_by_role("button", name="Show more").click()
        page.locator("#results:not(.busy)").wait_for()
        assert page.locator(".hit").nth(shown).evaluate("one => one === document.activeElement")
    assert ids(page) == expected
    assert page.get_by_role("status").first.inner_text().startswith(f"{len(expected)} results")
    assert page.locator("table.why").first.is_visible()  # what was open stays open


def test_documents_like_one_are_shown_and_left(page: Page, index: Index) -> None:
    ask(page, "Волга")
    with page.expect_response("**/similar?*"):
        hit(page, "Russian-2").get_by_role("button", name="Similar").click()
    page.get_by_text("Documents like Волга").wait_for()
    assert ids(page) == list(index.similar("Russian-2", 10).ids)
    assert parameters(page) == {"similar": ["Russian-2"]}
    with page.expect_response("**/similar?*"):
        facet(page, "places").click()
    sync_api.expect(facet(page, "places")).to_have_attribute("aria-pressed", "true")
    assert ids(page) == list(index.similar("Russian-2", 10, where={"topic": "places"}).ids)
    page.reload()
    page.get_by_text("Documents like Волга").wait_for()
    page.go_back()
    hit(page, "Russian-2").wait_for()
    assert page.get_by_label("Query").input_value() == "Волга"
    assert page.locator("#similar").is_hidden()
