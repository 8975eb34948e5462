"""The page in a real browser: asked, explained, switched, filtered, by mouse and by keyboard, without an error."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from browsing import CHROMIUM, NO_CHROMIUM, Page, ask, chromium, hit, ids, opened_page
from denslice import Index
from denslice.serve.limits import Access
from serving import KEY, Live, live

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; it comes with the extra dev")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)

FOX, OWL, CAT = "Foxes run through the wood. ", "Owls wake at dusk 😀. ", "The old cat sleeps on a warm sofa. "
ATLAS = (
    f"# Wild\n\n{FOX * 25}\n\n## Birds\n\n{OWL * 25}\n\n\f# Tame\n\n{CAT * 25}\n\n\f# Rest\n\n" + "Nothing else. " * 100
)
DOCS: list[dict[str, Any]] = [
    {
        "id": "fox",
        "title": "Foxes",
        "text": "Foxes sleep by day and hunt at night, alone.",
        "year": 2021,
        "kind": "wild",
    },
    {
        "id": "owl",
        "title": "Owls",
        "text": "😀 Owls hunt at night. An owl turns its head.",
        "year": 2020,
        "kind": "wild",
    },
    {"id": "cat", "text": "The cat sleeps on the sofa during the day.", "year": 2021, "kind": "tame"},
    {"id": "evil", "title": "<img src=x onerror=alert(1)>", "text": "<script>alert('night')</script> hunt <b>bold</b>"},
    {
        "id": "long",
        "title": "A long one",
        "text": "Filler without end. " * 60 + "At night, foxes hunt. " + "More. " * 60,
    },
    {"id": "book/1 😀", "text": "😀 Moss. " * 1_500 + "Badgers dig at dusk. " + "Fern. " * 5_000 + "The end."},
    {"id": "atlas", "title": "An atlas", "text": ATLAS},
    *(
        {"id": f"other-{n}", "text": f"Number {n} is about stones, rivers and trees.", "year": 1990 + n}
        for n in range(12)
    ),
]
LONG = ("long", "book/1 😀", "atlas")  # documents of several passages
IS_IN_VIEW = """(one) => {
    const place = one.getBoundingClientRect(), view = one.closest("#reader-text").getBoundingClientRect();
    return place.bottom > view.top && place.top < view.bottom;
}"""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    made = Index.create(tmp_path_factory.mktemp("page") / "page.idx", filterable=["year", "kind"])
    made.add(DOCS)
    return made


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


def reader(page: Page) -> Page:
    return page.locator("#reader")


def text_of(opened: Page) -> str:
    text = opened.locator("#reader-text")
    text.filter(has_text=re.compile(r"\S")).wait_for()  # it is fetched when it is opened
    return str(text.evaluate("text => text.textContent"))


def rows(found: Page) -> list[tuple[str, float, float]]:
    """Name, share and width of each bar of an explanation."""
    bars = found.locator("table.why tbody tr[data-share]")
    return [
        (
            bars.nth(at).locator("th").inner_text(),
            float(bars.nth(at).get_attribute("data-share")),
            bars.nth(at).locator("td.bar div").bounding_box()["width"],
        )
        for at in range(bars.count())
    ]


def test_a_query_is_answered_as_the_index_answers_it(page: Page, index: Index) -> None:
    ask(page, "who hunts at night")
    assert ids(page) == list(index.search("who hunts at night", 10).ids)
    assert page.title() == "who hunts at night – denslice"
    told = page.locator("#summary").inner_text()
    assert all(stage in told for stage in ("10 results in", "encode", "search", "documents", "explain"))


def test_the_bars_of_an_explanation_sum_to_the_score(page: Page, index: Index) -> None:
    ask(page, "foxes that sleep by day")
    for id in ids(page)[:3]:
        found = hit(page, id)
        found.get_by_role("button", name="Why").click()
        found.locator("table.why").wait_for()
        shares, score = rows(found), float(found.get_attribute("data-score"))
        assert sum(share for _, share, _ in shares) == pytest.approx(score, rel=1e-4)
        why = index.explain("foxes that sleep by day", id)
        assert [share for _, share, _ in shares] == pytest.approx([why.dense, *(t.contribution for t in why.terms)])
        longest = max(shares, key=lambda row: row[1])
        for _, share, width in shares:
            assert width == pytest.approx(max(2, longest[2] * share / longest[1]), abs=1.5)
        shown = sum(float(cell) for cell in found.locator("tbody td.share").all_inner_texts())
        assert shown == pytest.approx(
            float(found.locator("tfoot td.share").inner_text()), abs=0.005 * (len(shares) + 1)
        )
    whole = hit(page, ids(page)[0]).locator(".whole")
    assert whole.get_attribute("aria-label").startswith("score ")
    widths = [piece.bounding_box()["width"] for piece in whole.locator("i").all()]
    assert sum(widths) == pytest.approx(whole.bounding_box()["width"], rel=0.02)  # the best fills its line


def test_matched_words_are_marked_as_they_stand(page: Page) -> None:
    ask(page, "sleeping foxes hunt owls")
    assert hit(page, "fox").locator("h2 mark").all_inner_texts() == ["Foxes"]
    assert hit(page, "fox").locator(".text mark").all_inner_texts() == ["Foxes", "sleep", "hunt"]
    assert hit(page, "owl").locator(".text mark").all_inner_texts() == ["Owls", "hunt", "owl"]  # behind an emoji
    hit(page, "fox").get_by_role("button", name="Why").click()
    assert {name for name, _, _ in rows(hit(page, "fox"))} == {"dense", "foxes", "sleep", "hunt"}


def test_markup_in_documents_is_text(page: Page) -> None:
    ask(page, "alert night bold")
    evil = hit(page, "evil")
    assert evil.locator("h2").inner_text() == DOCS[3]["title"]
    assert evil.locator(".text").inner_text() == DOCS[3]["text"]
    assert evil.locator("img, script, b").count() == 0


def test_a_long_text_is_shown_where_it_matches_and_whole_on_demand(page: Page) -> None:
    page.get_by_text("Lexical", exact=True).click()
    ask(page, "foxes hunt at night")
    found = hit(page, "long")
    assert found.locator(".text").inner_text().startswith("…")
    assert found.locator(".text mark").all_inner_texts() == ["night", "foxes", "hunt"]
    found.get_by_role("button", name="Whole text").click()
    assert text_of(reader(page)) == DOCS[4]["text"]
    assert reader(page).locator("mark").all_inner_texts() == ["night", "foxes", "hunt"]
    assert reader(page).locator("mark").first.evaluate(IS_IN_VIEW)
    page.keyboard.press("Escape")
    sync_api.expect(reader(page)).to_be_hidden()
    assert found.get_by_role("button", name="Whole text").evaluate("button => button === document.activeElement")


def test_a_text_too_long_to_send_is_shown_in_part_and_fetched_whole_on_demand(page: Page) -> None:
    page.get_by_text("Lexical", exact=True).click()
    ask(page, "do badgers dig at dusk")
    found = hit(page, "book/1 😀")
    assert found.locator(".text mark").all_inner_texts() == ["Badgers", "dig", "dusk"]
    assert len(found.locator(".text").inner_text()) < 500
    with page.expect_response("**/documents/*"):
        found.get_by_role("button", name="Whole text").click()
    reader(page).wait_for()
    assert text_of(reader(page)) == DOCS[5]["text"]
    assert reader(page).locator(".passage mark").all_inner_texts() == ["Badgers", "dig", "dusk"]
    assert reader(page).locator(".passage mark").first.evaluate(IS_IN_VIEW)
    reader(page).get_by_role("button", name="Close the document").click()
    sync_api.expect(reader(page)).to_be_hidden()


# --- passages


def test_a_result_shows_its_place_and_a_map_of_where_it_matches(page: Page, index: Index) -> None:
    ask(page, "when do owls wake")
    found, expected = hit(page, "atlas"), next(h for h in index.search("when do owls wake") if h.id == "atlas")
    assert found.locator(".place").inner_text() == "Wild › Birds · page 1"
    assert "Owls" in found.locator(".text mark").all_inner_texts()
    ticks = found.locator(".tick")
    numbers = [int(tick.get_attribute("data-passage")) for tick in ticks.all()]
    assert numbers == sorted(passage.number for passage in expected.passages if passage.score > 0)
    shown = found.locator(".tick[aria-current]")
    assert int(shown.get_attribute("data-passage")) == expected.passages[0].number
    assert f"Wild › Birds · page 1, score {expected.passages[0].score:.2f}" in shown.get_attribute("aria-label")
    bar, tick = found.locator(".map").bounding_box(), shown.bounding_box()
    assert (tick["x"] - bar["x"]) / bar["width"] == pytest.approx(expected.passages[0].start / len(ATLAS), abs=0.01)
    assert hit(page, "owl").locator(".map").count() == 0  # one passage is all of it


def test_a_tick_opens_the_document_at_its_passage(page: Page) -> None:
    ask(page, "when do owls wake and cats sleep")
    ticks = hit(page, "atlas").locator(".tick")
    ticks.last.focus()
    with page.expect_response("**/documents/*"):
        page.keyboard.press("Enter")
    opened = reader(page)
    opened.wait_for()
    last = int(ticks.last.get_attribute("data-passage"))
    assert f"passage {last + 1} of" in opened.get_by_role("status").inner_text()
    assert opened.locator(".passage").evaluate(IS_IN_VIEW)
    assert opened.locator("h2").inner_text() == "An atlas"
    with_marks = [*opened.locator("mark").all_inner_texts()]
    assert {"Owls", "sleeps"} <= set(with_marks)
    opened.get_by_role("button", name="Next matching passage").click()
    first = int(ticks.first.get_attribute("data-passage"))
    assert f"passage {first + 1} of" in opened.get_by_role("status").inner_text()
    assert opened.locator(".passage").evaluate(IS_IN_VIEW)
    assert text_of(opened) == ATLAS
    opened.locator(".tick").last.press("Enter")
    assert opened.locator(".tick[aria-current]").evaluate("tick => tick === document.activeElement")
    page.keyboard.press("Escape")
    assert ticks.last.evaluate("tick => tick === document.activeElement")


def test_the_text_and_the_place_of_a_passage_open_the_document_there(page: Page) -> None:
    ask(page, "when do owls wake")
    for clicked in (".text", ".place"):
        hit(page, "atlas").locator(clicked).click()
        reader(page).locator(".passage mark", has_text="Owls").first.wait_for()
        page.keyboard.press("Escape")


def test_the_switch_shows_passages_and_the_address_keeps_it(page: Page, index: Index) -> None:
    ask(page, "when do owls wake and cats sleep")
    with page.expect_response("**/search") as answered:
        page.get_by_text("Passages", exact=True).click()
    assert json.loads(answered.value.request.post_data)["group"] is False
    page.locator("#results:not(.busy)").wait_for()
    expected = index.search("when do owls wake and cats sleep", group=False)
    assert ids(page) == list(expected.ids)
    assert ids(page).count("atlas") > 1
    shown = [int(one.get_attribute("data-passage")) for one in page.locator(".hit .tick[aria-current]").all()]
    assert shown == [number for id, number in zip(expected.ids, expected.passages, strict=True) if id in LONG]
    page.reload()
    page.locator(".hit").first.wait_for()
    assert ids(page) == list(expected.ids)
    assert page.get_by_role("radio", name="Passages").is_checked()


def test_the_parts_of_a_long_documents_score_sum_to_it(page: Page, index: Index) -> None:
    ask(page, "when do owls wake")
    found = hit(page, "atlas")
    found.get_by_role("button", name="Why").click()
    why = index.explain("when do owls wake", "atlas")
    assert [share for _, share, _ in rows(found)][:2] == pytest.approx([why.best, why.mean])
    assert sum(share for _, share, _ in rows(found)) == pytest.approx(why.score, rel=1e-4)


def test_the_mode_switches_between_lexical_dense_and_hybrid(page: Page, index: Index) -> None:
    question = "animals awake in the dark"
    ask(page, question)
    for mode in ("Dense", "Lexical", "Hybrid"):
        with page.expect_response("**/search") as answered:
            page.get_by_text(mode, exact=True).click()
        assert json.loads(answered.value.request.post_data)["mode"] == mode.lower()
        page.locator("#results:not(.busy)").wait_for()
        assert ids(page) == list(index.search(question, 10, mode=mode.lower()).ids)
        assert page.get_by_label("dense weight").is_disabled() == (mode == "Lexical")
        assert page.get_by_label("threshold").is_disabled() == (mode == "Dense")
    first = page.locator(".hit").first
    first.get_by_role("button", name="Why").click()
    assert rows(first)[0][0] == "dense"


def test_the_sliders_run_the_query_again(page: Page, index: Index) -> None:
    ask(page, "when do foxes sleep")
    before = float(hit(page, "fox").get_attribute("data-score"))
    with page.expect_response("**/search") as answered:
        page.get_by_label("dense weight").press("Home")
    assert json.loads(answered.value.request.post_data)["lam"] == 0
    page.locator("#results:not(.busy)").wait_for()
    after = float(hit(page, "fox").get_attribute("data-score"))
    assert after == pytest.approx(index.explain("when do foxes sleep", "fox", lam=0).score, rel=1e-4)
    assert after < before
    with page.expect_response("**/search") as answered:
        page.get_by_label("threshold").press("ArrowRight")
    assert json.loads(answered.value.request.post_data)["theta"] == pytest.approx(0.1)
    page.locator("#results:not(.busy)").wait_for()
    assert parse_qs(urlsplit(page.url).query) == {"q": ["when do foxes sleep"], "lam": ["0"], "theta": ["0.1"]}


def test_filters_are_added_by_hand_and_by_a_documents_own_fields(page: Page) -> None:
    ask(page, "night and day")
    page.get_by_role("button", name="Add a filter").click()
    page.get_by_label("Field").fill("year")
    page.get_by_label("Comparison").select_option("≥")
    with page.expect_response("**/search"):
        page.get_by_label("Value").fill("2021")
        page.get_by_label("Value").press("Enter")
    page.locator("#results:not(.busy)").wait_for()
    assert sorted(ids(page)) == ["cat", "fox"]
    with page.expect_response("**/search"):
        hit(page, "cat").get_by_role("button", name="kind: tame").click()
    sync_api.expect(page.locator(".hit")).to_have_count(1)
    assert ids(page) == ["cat"]
    page.reload()  # the address holds it all
    page.locator(".hit").first.wait_for()
    assert ids(page) == ["cat"]
    with page.expect_response("**/search"):
        page.get_by_role("button", name="Remove this filter").last.click()
    sync_api.expect(page.locator(".hit")).to_have_count(2)


def test_back_and_forward_go_from_search_to_search(page: Page) -> None:
    ask(page, "owls")
    ask(page, "foxes")
    page.go_back()
    sync_api.expect(page.get_by_label("Query")).to_have_value("owls")
    page.locator(".hit[data-id='owl']").wait_for()
    page.go_forward()
    sync_api.expect(page.get_by_label("Query")).to_have_value("foxes")


def test_all_of_it_works_by_keyboard(page: Page) -> None:
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Search").focus()
    page.keyboard.press("/")
    page.keyboard.type("foxes at night")
    with page.expect_response("**/search"):
        page.keyboard.press("Enter")
    page.locator(".hit").first.wait_for()
    why = page.locator(".hit").first.get_by_role("button", name="Why")
    for _ in range(40):
        page.keyboard.press("Tab")
        if why.evaluate("button => button === document.activeElement"):
            break
    page.keyboard.press("Enter")
    assert why.get_attribute("aria-expanded") == "true"
    assert page.locator("table.why").first.is_visible()
    assert page.get_by_role("status").inner_text().startswith("10 results")
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    assert page.locator(".hit").count() == 0


def test_every_control_has_a_name(page: Page) -> None:
    ask(page, "foxes")
    page.get_by_role("button", name="Add a filter").click()
    named = page.evaluate(
        """() => [...document.querySelectorAll("input, button, select, [role=img]")].map(
            (one) => one.getAttribute("aria-label") || one.labels?.[0]?.textContent || one.textContent)"""
    )
    assert all(name.strip() for name in named)
    assert len(named) > 20


def test_nothing_found_and_more_of_what_was_found(page: Page) -> None:
    page.get_by_text("Lexical", exact=True).click()
    ask(page, "xylophone")
    assert page.get_by_role("status").inner_text().startswith("No document matches")
    page.get_by_text("Hybrid", exact=True).click()
    ask(page, "stones")
    assert len(ids(page)) == 10
    with page.expect_response("**/search"):
        page.get_by_role("button", name="Show more").click()
    sync_api.expect(page.locator(".hit")).to_have_count(len(DOCS))
    assert len(set(ids(page))) == len(DOCS)


def test_a_phone_needs_no_scrolling_sideways_and_finds_the_settings(browser: Any, served: Live) -> None:
    phone = browser.new_page(viewport={"width": 360, "height": 740})
    phone.goto(f"{served.address}/?q=foxes+at+night")
    phone.locator(".hit").first.get_by_role("button", name="Why").click()
    assert phone.evaluate("document.documentElement.scrollWidth") <= 360
    phone.get_by_text("Settings").click()
    phone.get_by_text("Lexical", exact=True).click()
    phone.locator("#results:not(.busy)").wait_for()
    assert phone.evaluate("document.documentElement.scrollWidth") <= 360
    phone.close()


def test_light_and_dark_follow_the_system_and_the_button(browser: Any, served: Live) -> None:
    page = browser.new_page(color_scheme="dark")

    def ground() -> int:
        colour = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))

    page.goto(served.address)
    assert ground() < 150
    page.get_by_role("button", name="light and dark").click()
    assert ground() > 600
    page.reload()
    assert ground() > 600
    page.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_server_with_a_key_is_asked_with_it(browser: Any, index: Index, host: str) -> None:
    with live(index, access=Access(host=host, api_key=KEY)) as running:
        page = browser.new_page()
        page.goto(f"{running.address}/?q=badgers&mode=lexical")
        key = page.get_by_label("This server needs an API key")
        for wrong in ("", "not the key at all"):
            key.fill(wrong)
            with page.expect_response("**/index") as answered:
                page.get_by_role("button", name="Use this key").click()
            assert answered.value.status == 401
        assert page.locator(".hit").count() == 0
        key.fill(KEY)
        page.get_by_role("button", name="Use this key").click()
        found = hit(page, "book/1 😀")  # the search that the address holds
        found.get_by_role("button", name="Whole text").click()
        reader(page).get_by_role("button", name="Close the document").click()
        assert not key.is_visible()
        assert not page.get_by_role("alert").is_visible()
        ask(page, "foxes")
        assert "fox" in ids(page)
        page.reload()
        ask(page, "owls")
        assert "owl" in ids(page)
        page.close()


def test_a_heading_that_the_title_of_a_file_has_is_not_repeated(browser: Any, tmp_path: Any) -> None:
    files = Index.create(tmp_path / "files.idx", "bm25")
    files.add([{"id": "atlas.md", "title": "Wild (atlas.md)", "text": ATLAS}])
    with live(files) as running, opened_page(browser, running.address) as page:
        ask(page, "owls")
        assert hit(page, "atlas.md").locator(".place").inner_text() == "Birds · page 1"


def test_an_index_without_dense_vectors_offers_only_lexical_search(browser: Any, tmp_path: Any) -> None:
    words = Index.create(tmp_path / "words.idx", "bm25")
    words.add(DOCS)
    with live(words) as running:
        page = browser.new_page()
        page.goto(running.address)
        ask(page, "foxes")
        assert page.get_by_role("radio", name="Dense").is_disabled()
        assert page.get_by_role("radio", name="Lexical").is_checked()
        found = hit(page, "fox")
        found.get_by_role("button", name="Why").click()
        assert [name for name, _, _ in rows(found)] == ["foxes"]
        assert page.locator("#facets").is_hidden()  # it has no filterable fields
        page.close()
