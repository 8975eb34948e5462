"""Sync: an index holds what folders hold, whatever happened to them."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

import command_line
from denslice import Index, InputError
from denslice.corpus.roots import Root
from denslice.index.sync_plan import RootPlan
from kill_sync import assert_as_new, live_through


def write(path: Path, text: str, modified: int = 1_600_000_000) -> Path:
    """Write a file that was modified long ago, so that its size and time tell whether it has changed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (modified, modified))
    return path


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    for name, text in (("a.md", "# Foxes\n\nsleep by day"), ("b.md", "# Owls\n\nhunt at night"), ("c.txt", "hares")):
        write(tmp_path / "notes" / name, text)
    return tmp_path / "notes"


@pytest.fixture
def index(tmp_path: Path, notes: Path) -> Index:
    index = Index.create(tmp_path / "my.idx", "bm25")
    index.sync(notes)
    return index


def ids(index: Index) -> list[str]:
    return sorted(doc.id for doc in index.docs())


# --- the law


@pytest.mark.parametrize("seed", range(2))
def test_after_any_edits_and_kills_an_index_is_as_a_new_one_of_the_folder(tmp_path: Path, seed: int) -> None:
    assert live_through(tmp_path, 3, seed, {"encoder": "bm25"})


def test_reused_passages_make_the_same_index_to_the_last_bit(tmp_path: Path) -> None:
    assert live_through(tmp_path, 3, 11, {"encoder": "mini"}, kills=False)


# --- what changed


def test_the_first_sync_adds_every_file_in_one_commit(index: Index) -> None:
    assert ids(index) == ["notes/a.md", "notes/b.md", "notes/c.txt"]
    assert index.generation == 1


def test_a_second_sync_changes_nothing_and_makes_no_commit(index: Index) -> None:
    done = index.sync()
    assert (done.added, done.changed, done.removed, done.unchanged, done.documents) == (0, 0, 0, 3, 0)
    assert index.generation == 1


def test_new_changed_renamed_and_deleted_files_are_found_in_one_commit(index: Index, notes: Path) -> None:
    write(notes / "a.md", "# Foxes\n\nsleep in a den")
    (notes / "b.md").rename(notes / "owls.md")
    (notes / "c.txt").unlink()
    write(notes / "new" / "d.md", "# Badgers\n")
    done = index.sync()
    assert (done.added, done.changed, done.renamed, done.removed) == (1, 1, 1, 1)
    assert ids(index) == ["notes/a.md", "notes/new/d.md", "notes/owls.md"]
    assert index.generation == 2
    assert index.search("den").ids == ("notes/a.md",)
    assert index.search("hares").ids == ()


def test_only_changed_passages_are_encoded_again(tmp_path: Path, notes: Path) -> None:
    parts = [f"## Part {number}\n\n" + f"Sentence {number} of many in this part. " * 30 for number in range(6)]
    write(notes / "long.md", "\n\n".join(["# Long", *parts]))
    index = Index.create(tmp_path / "mini.idx")
    whole = index.sync(notes).encoded
    parts[3] = parts[3].replace("many", "several")
    write(notes / "long.md", "\n\n".join(["# Long", *parts]), 1_600_000_001)
    done = index.sync()
    assert 1 <= done.encoded <= 2
    assert done.reused == whole - 3 - done.encoded  # three other files
    assert_as_new(index, notes, encoder="mini")


def test_a_file_with_another_time_and_the_same_bytes_only_gets_another_time(index: Index, notes: Path) -> None:
    os.utime(notes / "a.md", (1_700_000_000, 1_700_000_000))
    index.sync()
    doc = index.get("notes/a.md")
    assert doc is not None
    assert doc.meta["modified"] == "2023-11-14T22:13:20Z"


def test_a_change_that_keeps_size_and_time_is_found_if_it_came_right_after_the_sync(tmp_path: Path) -> None:
    path = tmp_path / "notes" / "a.md"
    path.parent.mkdir()
    path.write_text("foxes")
    index = Index.create(tmp_path / "my.idx", "bm25")
    soon = time.time_ns() + 60_000_000_000  # so that it is not long before the sync, however slow this machine is
    os.utime(path, ns=(soon, soon))
    index.sync(path.parent)
    path.write_text("hares")
    os.utime(path, ns=(soon, soon))
    index.sync()
    assert index.search("hares").ids == ("notes/a.md",)


def test_a_document_that_somebody_deleted_comes_back(index: Index) -> None:
    index.delete(["notes/a.md"])
    assert index.sync().documents == 1
    assert "notes/a.md" in ids(index)


def test_a_dry_run_says_what_would_change_and_changes_nothing(index: Index, notes: Path) -> None:
    (notes / "a.md").unlink()
    write(notes / "z.md", "zebras")
    done = index.sync(dry_run=True)
    assert (done.added, done.removed, done.unchanged) == (1, 1, 2)
    assert index.generation == 1


def test_bad_files_are_told_again_and_read_again_only_when_they_change(index: Index, notes: Path) -> None:
    (notes / "x.png").write_bytes(bytes(range(256)))
    assert [problem.kind for problem in index.sync().problems] == ["binary"]
    assert [problem.kind for problem in index.sync().problems] == ["binary"]
    write(notes / "x.png", "a text after all")
    assert index.sync().problems == ()
    assert index.search("text").ids == ("notes/x.png",)


def test_strict_stops_at_a_bad_file_and_changes_nothing(index: Index, notes: Path) -> None:
    (notes / "x.png").write_bytes(bytes(range(256)))
    for _ in range(2):
        with pytest.raises(InputError, match=r"notes/x.png: not a text"):
            index.sync(strict=True)
    assert index.generation == 1


# --- roots


def test_several_folders_are_followed_and_each_can_be_synced_alone(index: Index, notes: Path, tmp_path: Path) -> None:
    write(tmp_path / "work" / "w.md", "wolves")
    index.sync(tmp_path / "work")
    (notes / "a.md").unlink()
    (tmp_path / "work" / "w.md").unlink()
    assert index.sync(tmp_path / "work").removed == 1
    assert ids(index) == ["notes/a.md", "notes/b.md", "notes/c.txt"]
    assert index.sync().removed == 1
    assert ids(index) == ["notes/b.md", "notes/c.txt"]


def test_a_part_of_a_folder_can_be_synced(index: Index, notes: Path) -> None:
    write(notes / "deep" / "d.md", "deer")
    write(notes / "e.md", "eels")
    assert index.sync(notes / "deep").added == 1
    assert "notes/deep/d.md" in ids(index)
    assert "notes/e.md" not in ids(index)


def test_a_single_file_is_followed_with_the_id_that_its_folder_gives_it(tmp_path: Path, notes: Path) -> None:
    index = Index.create(tmp_path / "my.idx", "bm25")
    index.sync(notes / "a.md")
    assert ids(index) == ["notes/a.md"]
    write(notes / "a.md", "wolves")
    assert index.sync().changed == 1
    assert index.sync(notes).added == 2
    assert ids(index) == ["notes/a.md", "notes/b.md", "notes/c.txt"]


def test_a_folder_that_moved_keeps_its_ids_and_nothing_is_read(index: Index, notes: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    moved = Path(shutil.move(notes, tmp_path / "elsewhere" / "notes"))
    done = index.sync(moved)
    assert (done.added, done.changed, done.removed, done.unchanged) == (0, 0, 0, 3)
    write(moved / "d.md", "deer")
    assert index.sync().added == 1


def test_a_folder_that_is_gone_deletes_nothing(index: Index, notes: Path) -> None:
    shutil.rmtree(notes)
    with pytest.raises(InputError, match="the folder is gone; nothing was deleted"):
        index.sync()
    assert len(index) == 3
    notes.mkdir()
    assert index.sync().deleted == 3


def test_a_folder_within_a_followed_one_keeps_its_own_ids(tmp_path: Path) -> None:
    write(tmp_path / "notes" / "sub" / "s.md", "seals")
    write(tmp_path / "notes" / "n.md", "newts")
    index = Index.create(tmp_path / "my.idx", "bm25")
    index.sync(tmp_path / "notes" / "sub")
    index.sync(tmp_path / "notes")
    assert ids(index) == ["notes/n.md", "sub/s.md"]


def test_the_index_may_lie_in_the_folder_that_it_follows(notes: Path) -> None:
    index = Index.create(notes / "my.idx", "bm25")
    index.sync(notes)
    assert index.sync().added == 0
    assert len(index) == 3


# --- tables


def test_rows_that_vanish_from_a_table_are_deleted_and_others_are_not_written_again(tmp_path: Path) -> None:
    rows = [f'{{"id": "r{number}", "text": "row number{number}"}}\n' for number in range(5)]
    table = write(tmp_path / "notes" / "t.jsonl", "".join(rows))
    index = Index.create(tmp_path / "my.idx", "bm25")
    index.sync(table.parent)
    write(table, "".join(rows[1:3]) + rows[3].replace("row", "another row"), 1_600_000_001)
    done = index.sync()
    assert (done.documents, done.deleted) == (1, 2)
    assert ids(index) == ["r1", "r2", "r3"]


def test_an_id_in_two_tables_belongs_to_the_first_and_then_to_the_other(tmp_path: Path) -> None:
    write(tmp_path / "notes" / "a.csv", "id,text\n1,foxes of the first table\n")
    write(tmp_path / "notes" / "b.csv", "id,text\n1,hares of the second table\n")
    index = Index.create(tmp_path / "my.idx", "bm25")
    assert [problem.kind for problem in index.sync(tmp_path / "notes").problems] == ["duplicate id"]
    assert index.search("foxes").ids == ("1",)
    (tmp_path / "notes" / "a.csv").unlink()
    assert index.sync().problems == ()
    assert index.search("hares").ids == ("1",)
    assert index.search("foxes").ids == ()


# --- commands


def test_index_on_a_followed_folder_deletes_nothing_and_says_what_is_gone(tmp_path: Path, notes: Path) -> None:
    index = tmp_path / "my.idx"
    command_line.denslice("index", notes, "--to", index, "--encoder", "bm25")
    (notes / "a.md").unlink()
    write(notes / "d.md", "deer")
    told = command_line.denslice("index", notes, "--to", index).stdout
    assert told.startswith("indexed 1 document ")
    assert "1 followed file is gone; `denslice sync` removes its documents" in told
    assert len(Index.open(index)) == 4
    told = command_line.denslice("sync", "--to", index).stdout
    assert told.startswith(f"synced {index}: 1 removed, 3 unchanged (")
    assert len(Index.open(index)) == 3


def test_sync_without_an_index_or_folders_is_told(tmp_path: Path) -> None:
    result = command_line.denslice("sync", "--to", tmp_path / "my.idx")
    command_line.assert_one_line(result, "no such index; name the folders to index")
    result = command_line.denslice("sync", tmp_path / "nowhere", "--to", tmp_path / "my.idx")
    command_line.assert_one_line(result, "no such file or folder")
    assert not (tmp_path / "my.idx").exists()


def test_watch_follows_changes_until_it_is_stopped(tmp_path: Path, notes: Path) -> None:
    pytest.importorskip("watchfiles")
    index = tmp_path / "my.idx"
    running = command_line.process("sync", notes, "--to", index, "--encoder", "bm25", "--watch")
    try:
        assert running.stdout is not None
        assert running.stdout.readline().startswith(f"synced {index}: 3 added")
        time.sleep(1.5)
        write(notes / "d.md", "deer")
        assert running.stdout.readline().startswith(f"synced {index}: 1 added")
        (notes / "d.md").unlink()
        assert running.stdout.readline().startswith(f"synced {index}: 1 removed")
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=20) == 0
    finally:
        running.kill()
        running.communicate()
    assert len(Index.open(index)) == 3


class CountedTwins(dict[str, str]):
    """Counts how often it is asked."""

    asked = 0

    def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]
        self.asked += 1
        return super().get(key, default)


def test_what_a_sync_finds_is_counted_in_one_look_at_each_file(tmp_path: Path) -> None:
    twins, names = CountedTwins({"new1": "old"}), [f"new{i}" for i in range(500)]
    found = RootPlan(Root("notes", str(tmp_path)), None, {}, to_read=names, gone=["old"], twins=twins)
    assert (len(found.added), found.renamed) == (499, {"new1": "old"})
    assert twins.asked == 2 * len(names)
