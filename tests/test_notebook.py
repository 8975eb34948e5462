"""The notebook in examples/: stored without results, and run as a reader runs it, cell by cell in a kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "notebook.ipynb"
WAIT = 120  # seconds for a cell


def cells() -> list[dict[str, Any]]:
    """The cells with programs, as they are stored."""
    stored = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return [cell for cell in stored["cells"] if cell["cell_type"] == "code"]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """What each cell shows, by its id: the text for each kind of output."""
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed; it is in the extra dev")
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed; it is in the extra dev")
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=WAIT, resources={"metadata": {"path": str(folder)}})
    client.execute()
    assert list(folder.iterdir()) == []  # a notebook leaves nothing behind
    ran = {cell.id: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}
    assert [one for outputs in ran.values() for one in outputs if one.output_type != "execute_result"] == []
    return {id: dict(outputs[0].data) if outputs else {} for id, outputs in ran.items()}


def test_the_notebook_is_stored_without_results() -> None:
    assert len(cells()) > 5
    assert [cell["id"] for cell in cells() if cell["outputs"] or cell["execution_count"] is not None] == []


def test_the_index_shows_its_card(shown: dict[str, dict[str, str]]) -> None:
    view = shown["index"]["text/html"]
    assert "animals.idx" in view
    assert "mini" in view
    assert "filterable" in view


def test_the_ranking_is_shown_with_marks_and_bars_of_both_kinds(shown: dict[str, dict[str, str]]) -> None:
    view = shown["hits"]["text/html"]
    assert "<mark>sleeps</mark>" in view
    assert 'class="dense"' in view
    assert 'class="words"' in view
    assert shown["first"]["text/plain"].startswith("('fox', ")


def test_the_explanation_is_shown(shown: dict[str, dict[str, str]]) -> None:
    assert "dense" in shown["why"]["text/html"]
    assert '<span dir="auto">sleep</span>' in shown["why"]["text/html"]


def test_the_data_frame_is_shown(shown: dict[str, dict[str, str]]) -> None:
    assert "<th>lexical</th>" in shown["frame"]["text/html"]


def test_the_filter_leaves_out_older_documents_and_the_operator_dogs(shown: dict[str, dict[str, str]]) -> None:
    view = shown["since"]["text/html"]
    assert "Owls" in view
    assert "Foxes" not in view
    assert "Hares" not in view
