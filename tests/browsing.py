"""The page in a real browser, and ways to use it: for tests of the page and pictures of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

Page = Any
WAIT = 30_000  # milliseconds, as long as other waits
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NO_CHROMIUM = "there is no chromium; on Debian: apt-get install chromium"
WELCOME = "Every result shows the parts of its score"


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a browser without a window."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=WAIT)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@contextmanager
def opened_page(browser: Any, address: str) -> Iterator[Page]:
    """Yield the page of a server. Afterwards nothing has gone wrong in it, and it has asked nobody else."""
    context = browser.new_context(viewport={"width": 1100, "height": 900})
    opened, trouble, asked = context.new_page(), [], []
    opened.on("console", lambda message: trouble.append(message.text) if message.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: trouble.append(str(error)))
    opened.on("dialog", lambda dialog: trouble.append(dialog.message))
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(address)
    opened.get_by_text(WELCOME).wait_for()
    yield opened
    context.close()
    assert trouble == []
    assert asked
    assert all(url.startswith(address) for url in asked)


def ask(page: Page, text: str) -> None:
    """Search a text and wait for the results."""
    with page.expect_response("**/search"):
        page.get_by_label("Query").fill(text)
        page.get_by_label("Query").press("Enter")
    page.locator("#results:not(.busy)").wait_for()


def hit(page: Page, id: str) -> Page:
    """Return the result with an id."""
    return page.locator(f".hit[data-id='{id}']")


def ids(page: Page) -> list[str]:
    """Return the ids of the results, in their order."""
    return [one.get_attribute("data-id") for one in page.locator(".hit").all()]
