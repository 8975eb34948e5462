"""A folder with a file of every format, and bad ones of each kind, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import command_line
from denslice import Index
from every_format import Words, markdown, write_bad, write_good

KINDS = "1 scanned PDF", "1 encrypted file", "2 damaged files", "2 binaries", "2 large files", "2 special files"


def denslice(*arguments: object, status: int = 0) -> str:
    """Run a command and return what it printed: on stdout, or the error if it is to fail."""
    result = command_line.denslice(*arguments)
    assert result.exit_code == status, result.output
    return result.stdout if status == 0 else result.stderr


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Words], dict[str, str]]:
    place = tmp_path_factory.mktemp("folders")
    (place / "stuff").mkdir()
    return place, write_good(place / "stuff"), write_bad(place / "stuff" / "bad")


@pytest.fixture(scope="module")
def told(made: tuple[Path, dict[str, Words], dict[str, str]]) -> str:
    place = made[0]
    index, report = place / "my.idx", place / "skipped.jsonl"
    return denslice("index", place / "stuff", "--to", index, "--encoder", "bm25", "--report", report)


def test_every_good_file_is_found_by_a_word_from_its_middle_and_by_its_title(
    made: tuple[Path, dict[str, Words], dict[str, str]], told: str
) -> None:
    place, good, _ = made
    with Index.open(place / "my.idx") as index:
        for name, words in good.items():
            for word in (words.middle, words.title):
                ids = index.search(word).ids
                assert any(id == f"stuff/{name}" or id.startswith(f"stuff/{name}#") for id in ids), (name, word)


def test_the_summary_counts_what_was_skipped_and_says_what_was_guessed(
    made: tuple[Path, dict[str, Words], dict[str, str]], told: str
) -> None:
    _, good, bad = made
    assert told.startswith(f"indexed {len(good) + 1} documents (")  # a mailbox has two messages
    (line,) = [line for line in told.splitlines() if line.startswith("skipped")]
    assert line.startswith(f"skipped {len(bad)}: ")
    assert all(kind in line for kind in KINDS)
    assert "note: stuff/table.csv: text is taken from the column `body`" in told


def test_the_report_names_each_bad_file_and_its_kind(
    made: tuple[Path, dict[str, Words], dict[str, str]], told: str
) -> None:
    place, _, bad = made
    lines = [json.loads(line) for line in (place / "skipped.jsonl").read_text().splitlines()]
    assert {line["place"]: line["kind"] for line in lines} == {f"stuff/bad/{name}": kind for name, kind in bad.items()}
    assert all(line["problem"] for line in lines)


def test_strict_stops_with_status_2_and_leaves_nothing(made: tuple[Path, dict[str, Words], dict[str, str]]) -> None:
    place = made[0]
    line = denslice("index", place / "stuff", "--to", place / "strict.idx", "--strict", status=2)
    assert line.startswith("error: stuff/bad/")
    assert not (place / "strict.idx").exists()


def test_navigation_is_not_found(made: tuple[Path, dict[str, Words], dict[str, str]], told: str) -> None:
    with Index.open(made[0] / "my.idx") as index:
        assert index.search("navigationword").ids == ()


def test_a_pdf_knows_its_pages_and_metadata_can_be_filtered(
    made: tuple[Path, dict[str, Words], dict[str, str]], told: str
) -> None:
    place, good, _ = made
    with Index.open(place / "my.idx") as index:
        hit = index.search(good["paper.pdf"].middle)[0]
        assert hit.passages[0].page == 2
        assert hit.meta["path"] == "stuff/paper.pdf"
        ids = index.search("harvest", where={"author": "Ada", "date": {"gte": "2021-01-01"}}).ids
        assert "stuff/front.md" in ids
        assert all(doc.meta["path"].startswith("stuff/") for doc in index.docs())


def test_one_stray_table_hides_no_notes(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    for number in range(20):
        (notes / f"{number}.rst").write_text(f"Heading {number}\n=========\n\nwords number{number}\n")
    (notes / "stray.tsv").write_text("1\tone row\n")
    assert denslice("index", notes, "--to", tmp_path / "my.idx", "--encoder", "bm25").startswith("indexed 21 documents")


def test_two_folders_with_a_readme_each_do_not_collide(tmp_path: Path) -> None:
    for name in ("one", "two", "deep/one"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "README.md").write_text(f"# {name}\n")
    index = tmp_path / "my.idx"
    denslice("index", tmp_path / "one", tmp_path / "two", tmp_path / "deep/one", "--to", index, "--encoder", "bm25")
    ids = {doc.id for doc in Index.open(index).docs()}
    assert ids == {"one/README.md", "two/README.md", "deep/one/README.md"}


def test_an_id_is_the_same_however_the_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    markdown(notes / "a b.md", Words(3))
    monkeypatch.chdir(notes)
    for number, name in enumerate((".", "../notes", "../notes/", str(notes), "a b.md", str(notes / "a b.md"))):
        denslice("index", name, "--to", tmp_path / f"{number}.idx", "--encoder", "bm25")
        assert [doc.id for doc in Index.open(tmp_path / f"{number}.idx").docs()] == ["notes/a b.md"]


def test_show_and_delete_take_the_path_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "fox.md").write_text("# Foxes\n\nFoxes sleep by day.\n")
    index = tmp_path / "my.idx"
    denslice("index", notes, "--to", index, "--encoder", "bm25")
    monkeypatch.chdir(notes)
    assert denslice("show", index, "./fox.md").startswith("notes/fox.md  Foxes (fox.md)\n")
    assert denslice("delete", index, "fox.md") == f"deleted 1 document from {index}\n"


def test_an_empty_folder_is_told_and_a_folder_of_bad_files_is_an_empty_index(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    line = denslice("index", tmp_path / "empty", "--to", tmp_path / "my.idx", status=2)
    assert "nothing to read in this folder" in line
    (tmp_path / "empty" / "x.bin").write_bytes(bytes(range(256)))
    told = denslice("index", tmp_path / "empty", "--to", tmp_path / "my.idx", "--encoder", "bm25")
    assert told.startswith("indexed 0 documents into")
    assert "skipped 1: 1 binary" in told
