"""The server and levels: documents are added quickly, and deepened beside searches and writes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from denslice import Index, open_index
from denslice.encoders.word_table import TABLE_FILE
from denslice.serve.limits import Access, Limits
from serving import KEY, Answer, Live, live
from small_tables import MINI, model_with_table

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
        assert told == "the model bare has no words.npz, so it cannot read documents quickly"
