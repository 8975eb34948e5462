"""The server and levels: documents are added quickly, and deepened beside searches and writes."""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from browsing import CHROMIUM, NO_CHROMIUM, chromium, opened_page
from denslice import Index, open_index
from denslice.__main__ import app
from denslice.encoders.word_table import TABLE_FILE
from denslice.serve.deepening_task import DeepeningTask
from denslice.serve.limits import Access, Limits
from serve_process import process
from serving import KEY, Answer, Live, live
from small_tables import MINI, model_with_table
from waiting import wait_until

SOON = Limits(refresh_seconds=0.05)
WRITER = Access(api_key=KEY, writable=True, open=True)
DOCS = [{"id": str(number), "text": f"Fox {number} sleeps in oven {number} at night."} for number in range(20)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The embedded model with a table of words."""
    return model_with_table(tmp_path_factory.mktemp("model") / "mini")


def added(served: Live, documents: list[dict[str, Any]], **more: Any) -> Answer:
    body = {"documents": documents, **more}
    return served.ask("/documents", body, "POST", Authorization=f"Bearer {KEY}")


def test_documents_are_added_at_the_level_that_is_asked_for(tmp_path: Path, model: str) -> None:
    with Index.create(tmp_path / "my.idx", model) as index, live(index, SOON, WRITER) as served:
        assert added(served, DOCS[:3], level="quick").json()["documents"] == 3
        assert added(served, DOCS[3:5]).json()["documents"] == 2
        assert served.ask("/index").json()["quick"] == 3
        assert served.search("fox 1", mode="dense").json()["results"][0]["hits"]
        refused = added(served, DOCS, level="deep")
        assert (refused.status, refused.code) == (422, "invalid")
        assert "level: Input should be 'quick' or 'full'" in refused.json()["error"]["message"]
    assert open_index(tmp_path / "my.idx").info().quick == 3


def test_a_model_without_a_table_says_so_and_not_where_it_is(tmp_path: Path) -> None:
    shutil.copytree(MINI, tmp_path / "bare")
    (tmp_path / "bare" / TABLE_FILE).unlink(missing_ok=True)
    with Index.create(tmp_path / "my.idx", str(tmp_path / "bare")) as index, live(index, SOON, WRITER) as served:
        refused = added(served, DOCS, level="quick")
        assert (refused.status, len(index)) == (422, 0)
        told = refused.json()["error"]["message"]
        assert told == "the model bare has no words.npz, so it cannot read texts quickly"


def quick_index(path: Path, model: str, count: int = len(DOCS)) -> Index:
    index = Index.create(path, model)
    index.add(({**DOCS[at % len(DOCS)], "id": str(at)} for at in range(count)), level="quick")
    return index


def left(served: Live) -> int:
    return int(served.ask("/index").json()["quick"])


def test_the_server_deepens_until_nothing_is_left_and_goes_on_with_what_comes(tmp_path: Path, model: str) -> None:
    index = quick_index(tmp_path / "my.idx", model)
    with live(index, SOON, WRITER, DeepeningTask(index, 1.0)) as served:
        wait_until(lambda: left(served) == 0)
        assert served.metric("denslice_index_quick_documents") == 0
        added(served, [{"id": "more", "text": "A heat pump"}], level="quick")
        wait_until(lambda: left(served) == 0 and served.ask("/documents/more").status == 200)
        hits = served.search("fox 7", k=30).json()["results"][0]["hits"]
    with Index.create(tmp_path / "full.idx", model) as full:
        full.add([*DOCS, {"id": "more", "text": "A heat pump"}])
        expected = full.search("fox 7", k=30)
        assert [(hit["id"], hit["score"]) for hit in hits] == list(zip(expected.ids, expected.scores, strict=True))


def test_a_stop_gives_up_what_is_being_encoded_and_leaves_a_good_index(tmp_path: Path, model: str) -> None:
    index = quick_index(tmp_path / "my.idx", model)
    with live(index, SOON, WRITER, DeepeningTask(index, 0.001)) as served:
        time.sleep(1.5)  # it has begun
        assert served.ask("/readyz").status == 200
        began = time.perf_counter()
    assert time.perf_counter() - began < 5
    assert not list((tmp_path / "my.idx" / "writing").glob("*/*"))
    with open_index(tmp_path / "my.idx") as again:
        assert again.info().quick == len(DOCS)
        assert again.deepen() == len(DOCS)


def test_an_index_that_takes_the_place_of_another_is_deepened_too(tmp_path: Path, model: str) -> None:
    index = quick_index(tmp_path / "my.idx", model)
    quick_index(tmp_path / "other.idx", model, 7).close()
    with live(index, SOON, WRITER, DeepeningTask(index, 1.0)) as served:
        wait_until(lambda: left(served) == 0)
        (tmp_path / "my.idx").rename(tmp_path / "old.idx")
        (tmp_path / "other.idx").rename(tmp_path / "my.idx")
        wait_until(lambda: served.ask("/index").json()["documents"] == 7 and left(served) == 0)
        assert served.ask("/readyz").status == 200


@pytest.mark.parametrize("share", ["0.5", "1"])
def test_the_command_deepens_and_stops_without_a_word(tmp_path: Path, model: str, share: str) -> None:
    quick_index(tmp_path / "my.idx", model, 500).close()
    with process(tmp_path / "my.idx", "--deepen", share) as (running, served):
        wait_until(lambda: 0 < left(served) < 500)
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 0
        assert running.stderr is not None
        assert running.stderr.read() == ""
    with open_index(tmp_path / "my.idx") as index:
        assert 0 < index.info().quick < 500
        index.verify()


@pytest.mark.parametrize("share", ["0", "1.5", "-1", "nan"])
def test_a_share_that_is_none_is_an_error(tmp_path: Path, model: str, share: str) -> None:
    quick_index(tmp_path / "my.idx", model).close()
    done = CliRunner().invoke(app, ["serve", str(tmp_path / "my.idx"), "--port", "0", "--deepen", share])
    assert done.exit_code == 2
    assert "--deepen is a share of one core's time, above 0 and at most 1" in done.stderr


@pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)
def test_the_page_shows_how_far_it_is(tmp_path: Path, model: str) -> None:
    index = quick_index(tmp_path / "my.idx", model)
    with live(index, SOON) as served, chromium() as browser, opened_page(browser, served.address) as page:
        page.get_by_text("20 documents, 20 at the quick level").wait_for()
        index.deepen(15)
        page.get_by_text("20 documents, 5 at the quick level").wait_for()
        index.deepen()
        page.get_by_text("20 documents ·").wait_for()
