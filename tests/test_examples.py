"""The programs in examples/, run as a stranger runs them: from another folder, by the command in their docstring."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def printed(folder: Path, example: str, *arguments: str) -> list[str]:
    """The lines that an example prints, run in this folder; warnings are errors there too."""
    before = list(folder.iterdir())
    command = [sys.executable, "-W", "error", str(EXAMPLES / example), *arguments]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    assert list(folder.iterdir()) == before  # an example leaves nothing behind
    return ran.stdout.splitlines()


def test_notes_are_found_and_the_parts_of_a_score_sum_to_it(tmp_path: Path) -> None:
    lines = printed(tmp_path, "search_notes.py")
    assert lines[0] == "indexed 5 notes; asking: how do I keep a loaf from going stale"
    id, score, _, dense, _, _, lexical, _ = lines[2].split()
    assert id == "bread.md"
    assert float(score) == pytest.approx(float(dense) + float(lexical), abs=0.011)
    words = lines[3 : lines.index("", 3)]
    assert {line.split()[0] for line in words} == {"loaf", "stale"}
    assert sum(float(line.split()[-1]) for line in words) == pytest.approx(float(lexical), abs=0.011)


def test_the_notes_of_any_folder_answer_any_question(tmp_path: Path) -> None:
    for name, text in {"walks/river.md": "Along the river to the old mill.", "soup.md": "Leeks and potatoes."}.items():
        (tmp_path / "mine" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mine" / name).write_text(text, encoding="utf-8")
    lines = printed(tmp_path, "search_notes.py", "mine", "a walk to the mill")
    assert lines[0] == "indexed 2 notes; asking: a walk to the mill"
    assert lines[2].startswith("walks/river.md ")


def test_the_index_scores_by_the_gated_inner_product(tmp_path: Path) -> None:
    lines = printed(tmp_path, "paper_method.py")
    assert lines == [
        "foxes  values [2.0, 1.5, 1.0, 0.5] gates [0, 0, 0, 0]",
        "owls   values [2.0, 1.5, 1.0, 1.0] gates [1, 1, 1, 1]",
        "mice   values [1.0, 0.0, 0.5, 2.0] gates [0, 0, 1, 1]",
        "mice   gip 3.250  index 3.250  lost in slicing: []",
        "owls   gip 3.000  index 3.000  lost in slicing: []",
        "foxes  gip 2.000  index 2.000  lost in slicing: ['night']",
    ]


def test_filters_follow_changes_and_a_reader_sees_them_after_refresh(tmp_path: Path) -> None:
    lines = printed(tmp_path, "living_index.py")
    assert lines == [
        "since 2020: dpr splade",
        "lexical or old: bm25 splade",
        "writer, since 2020: bm25 dpr",
        "reader, since 2020: dpr splade",
        "reader after refresh: bm25 dpr",
    ]


def test_a_document_added_over_http_is_found_and_explained(tmp_path: Path) -> None:
    lines = printed(tmp_path, "serve_and_ask.py")
    assert lines == [
        "{'documents': 1, 'generation': 1}",
        "fox: Foxes sleep by day. 0.367 = {'fox': 0.184, 'sleep': 0.184}",
    ]
