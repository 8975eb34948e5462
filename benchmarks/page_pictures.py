"""Takes the pictures of the search page and of a notebook in docs/, in chromium: python benchmarks/page_pictures.py

The picture of ten scripts needs fonts for them; on Debian: apt-get install fonts-noto-core fonts-noto-cjk
"""

from __future__ import annotations

import base64
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from denslice import Index

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(ROOT / "tests"))

from browsing import Page, ask, chromium, hit  # noqa: E402
from serving import live  # noqa: E402
from ten_scripts import QUESTIONS, ten_scripts_index  # noqa: E402

SIZE = {"width": 1000, "height": 800}
TILE = 500  # pixels of the page of one question
VIEW = 560  # pixels of the view of a notebook
THEME = ":root { color-scheme: light dark } body { margin: 0; padding: 14px 14px 6px }"  # of a reader's system
SHEET = """<!doctype html><style>
  body {{ margin: 0; padding: 16px; background: #fbfbfd; }}
  body {{ display: grid; grid-template-columns: 1fr 1fr; gap: 18px 16px; }}
  img {{ display: block; max-width: 100%; margin-bottom: 6px; }}
</style>{tiles}"""


def main() -> None:
    """Take all pictures."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        with live(docs_index(f"{folder}/docs.idx")) as served, opened(browser, served.address, SIZE) as page:
            explained(page, "what happens when a shard does not answer", "docs/scaling.md")
            page.screenshot(path=DOCS / "page-light.png")
        with live(ten_scripts_index(f"{folder}/scripts.idx")) as served:
            take_dark(browser, served.address)
            take_scripts(browser, served.address)
        take_notebook(browser, f"{folder}/notes.idx")


def take_dark(browser: Any, address: str) -> None:
    """Take a picture of a query with a correction, a condition and facets."""
    with opened(browser, address, SIZE, "dark") as page:
        explained(page, "how do bees recieve polen -moon", "English-3")
        page.screenshot(path=DOCS / "page-dark.png")


def take_scripts(browser: Any, address: str) -> None:
    """Take a picture of a question in each script with its first result."""
    with opened(browser, address, {"width": TILE, "height": 800}) as page:
        tiles = "".join(tile(page, one.text) for language, one in QUESTIONS.items() if language != "English")
    with opened(browser, "about:blank", {"width": 2 * TILE, "height": 100}) as page:
        page.set_content(SHEET.format(tiles=tiles))
        page.screenshot(path=DOCS / "page-scripts.png", full_page=True)


def take_notebook(browser: Any, path: str) -> None:
    """Take a picture of a ranking and an explanation as a notebook shows them, light beside dark."""
    index = Index.create(path)
    index.sync(ROOT / "examples" / "notes")
    hits = index.search("how do I keep a loaf from going stale", k=2)
    cells = f"{hits._repr_html_()}{hits.explain(hits.ids[0])._repr_html_()}"
    tiles = "".join(f"<div>{view(browser, cells, colours)}</div>" for colours in ("light", "dark"))
    with opened(browser, "about:blank", {"width": 2 * VIEW + 48, "height": 100}) as page:
        page.set_content(SHEET.format(tiles=tiles))
        page.screenshot(path=DOCS / "notebook.png", full_page=True)


def view(browser: Any, cells: str, colours: str) -> str:
    """Return an image of cells as a reader sees them whose system is light or dark, as HTML."""
    with opened(browser, "about:blank", {"width": VIEW, "height": 100}, colours) as page:
        page.set_content(f"<!doctype html><style>{THEME}</style>{cells}")
        return image(page.locator("body"))


def docs_index(path: str) -> Index:
    """Return an index of the documentation."""
    index = Index.create(path)
    index.sync(DOCS)
    return index


@contextmanager
def opened(browser: Any, address: str, size: Mapping[str, int], colours: str = "light") -> Iterator[Page]:
    """Yield a page of this size."""
    context = browser.new_context(viewport=size, color_scheme=colours)
    page = context.new_page()
    page.goto(address)
    yield page
    context.close()


def explained(page: Page, text: str, id: str) -> None:
    """Search a text and explain a result, with the mouse elsewhere."""
    ask(page, text)
    hit(page, id).get_by_role("button", name="Why").click()
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur()")


def tile(page: Page, text: str) -> str:
    """Return images of the search box with a question and of its first result, as HTML."""
    ask(page, text)
    page.evaluate("document.activeElement.blur()")
    return f"<div>{image(page.locator('#search > .box'))}{image(page.locator('.hit').first)}</div>"


def image(place: Any) -> str:
    """Return what a place of the page shows, as HTML."""
    return f'<img src="data:image/png;base64,{base64.b64encode(place.screenshot()).decode()}">'


if __name__ == "__main__":
    main()
