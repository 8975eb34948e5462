"""A file has one id however its path is written, and no other file has it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from denslice.corpus.folder_walk import walk
from denslice.corpus.roots import Root, located

FILES = [
    "notes/a.md",
    "notes/sub/a.md",
    "work/notes/a.md",
    "work/notes/sub/a.md",
    "old/work/notes/a.md",
    "a.md",
    "work/a.md",
]
same_folder = settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "alias").symlink_to("work")
    (tmp_path / "sub alias").symlink_to(tmp_path / "notes" / "sub")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def root_of(name: str, folder: Path, whole: bool = True) -> Root:
    return Root(name, str(folder), whole)


def test_a_folder_is_a_root_with_its_own_name(tree: Path) -> None:
    assert located(tree / "notes", [], True) == (root_of("notes", tree / "notes"), "")


def test_the_folder_of_a_single_file_is_a_root_that_is_not_whole(tree: Path) -> None:
    assert located(tree / "notes" / "a.md", [], False) == (root_of("notes", tree / "notes", whole=False), "a.md")


def test_a_path_belongs_to_the_deepest_known_root(tree: Path) -> None:
    known = [root_of("notes", tree / "notes"), root_of("sub", tree / "notes" / "sub"), root_of("work", tree / "work")]
    assert located(tree / "notes" / "a.md", known, False) == (known[0], "a.md")
    assert located(tree / "notes" / "sub" / "a.md", known, False) == (known[1], "a.md")
    assert located(tree / "work" / "notes", known, True) == (known[2], "notes")


def test_a_root_becomes_whole_when_its_folder_is_named(tree: Path) -> None:
    known = [root_of("notes", tree / "notes", whole=False)]
    assert located(tree / "notes", known, True) == (root_of("notes", tree / "notes"), "")
    assert located(tree / "notes" / "sub", known, True) == (known[0], "sub")


def test_the_root_of_all_has_a_name() -> None:
    assert located(Path("/"), [], True) == (Root("root", "/"), "")
    assert located(Path("/a.md"), [], False) == (Root("root", "/", whole=False), "a.md")


# --- names


def test_a_name_that_is_taken_is_told_apart_by_the_folders_above(tree: Path) -> None:
    known = [root_of("notes", tree / "notes")]
    known.append(located(tree / "work" / "notes", known, True)[0])
    known.append(located(tree / "old" / "work" / "notes", known, True)[0])
    assert [root.name for root in known] == ["notes", "work/notes", "old/work/notes"]


def test_a_name_that_begins_with_another_is_taken(tree: Path) -> None:
    known = [root_of("notes", tree / "notes"), root_of("work/notes", tree / "work" / "notes")]
    assert located(tree / "old" / "work", known, True)[0].name == "old/work"


def test_at_last_a_number_tells_names_apart() -> None:
    known = [Root("a", "/usr"), Root("a-2", "/etc")]
    assert located(Path("/a"), known, True)[0] == Root("a-3", "/a")


def test_names_of_roots_are_printable(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9\n%0A")
    folder.mkdir()
    root, within = located(folder / "two\nlines", [], False)
    assert (root.name, within) == ("caf%E9%0A%250A", "two%0Alines")
    assert root.folder == folder
    assert located(folder / "b", [root], False) == (root, "b")


# --- folders that were moved


def test_a_root_whose_folder_is_gone_was_moved(tree: Path) -> None:
    known = [root_of("notes", tree / "gone" / "notes", whole=False)]
    assert located(tree / "notes", known, True) == (root_of("notes", tree / "notes"), "")


def test_a_single_file_does_not_move_a_root(tree: Path) -> None:
    known = [root_of("notes", tree / "gone" / "notes")]
    assert located(tree / "notes" / "a.md", known, False)[0].name == f"{tree.name}/notes"


def test_a_root_that_is_a_file_now_is_gone(tree: Path) -> None:
    assert located(tree / "notes", [root_of("notes", tree / "a.md")], True)[0] == root_of("notes", tree / "notes")


# --- one file, one id


@pytest.mark.parametrize(
    "spelling",
    ["notes/a.md", "./notes//a.md", "../work/notes/a.md", "../alias/notes/a.md", "../sub alias/../../work/notes/a.md"],
)
@pytest.mark.parametrize("is_known", [False, True])
def test_a_file_has_one_id_however_its_path_is_written(tree: Path, spelling: str, is_known: bool) -> None:
    known = [root_of("notes", tree / "work" / "notes")] if is_known else []
    root, within = located(Path(spelling), known, False)
    assert (root.id_of(within), root.folder) == ("notes/a.md", tree / "work" / "notes")


@given(st.data())
@same_folder
def test_any_spelling_of_a_path_gives_the_same_id(tree: Path, data: st.DataObject) -> None:
    known = roots_after(tree, data.draw(given_paths))
    name = data.draw(st.sampled_from(FILES))
    assert located(spelled(tree, name, data), known, False) == located(tree / name, known, False)


given_paths = st.lists(st.sampled_from([*FILES, "notes", "notes/sub", "work", "work/notes", "old/work", "old", "."]))


@given(given_paths)
@same_folder
def test_no_two_files_have_the_same_id(tree: Path, paths: list[str]) -> None:
    known = roots_after(tree, [*paths, *FILES])
    found = [located(tree / name, known, False) for name in FILES]
    assert len({root.id_of(within) for root, within in found}) == len(FILES)
    ids = [root.id_of(file.relative) for root in known for file in walk(root.folder, pytest.fail)]  # type: ignore[arg-type]
    assert len(set(ids)) == len(ids)


@given(st.lists(st.sampled_from(FILES), unique=True), given_paths)
@same_folder
def test_an_id_stays_when_roots_are_added(tree: Path, files: list[str], paths: list[str]) -> None:
    known = roots_after(tree, files)
    later = roots_after(tree, [*files, *paths])
    for name in files:
        (root, within), (root_later, within_later) = (located(tree / name, some, False) for some in (known, later))
        assert root.id_of(within) == root_later.id_of(within_later)


@given(given_paths)
@same_folder
def test_a_file_by_itself_has_the_id_that_the_walk_gives_it(tree: Path, paths: list[str]) -> None:
    known = roots_after(tree, paths)
    for root in known:
        for file in walk(root.folder, pytest.fail):  # type: ignore[arg-type]
            owner, within = located(file.path, known, False)
            assert owner != root or within == file.relative


def test_a_file_behind_a_link_has_the_id_that_the_walk_gives_it(tree: Path) -> None:
    (tree / "notes" / "out").symlink_to("../old")
    (tree / "notes" / "b.md").symlink_to("../a.md")
    known = [root_of("notes", tree / "notes")]
    for file in walk(tree / "notes", pytest.fail):  # type: ignore[arg-type]
        assert located(Path("../notes") / file.relative, known, False) == (known[0], file.relative)
    assert located(tree / "notes" / "out" / "work", known, True) == (known[0], "out/work")


def roots_after(tree: Path, paths: Sequence[str]) -> list[Root]:
    """Return the roots of an index to which these paths were added in turn."""
    known: dict[str, Root] = {}
    for path in paths:
        root, _ = located(tree / path, list(known.values()), (tree / path).is_dir())
        known[root.name] = root
    return list(known.values())


def spelled(tree: Path, name: str, data: st.DataObject) -> Path:
    """Return a path of a file, relative or absolute, with detours and through links."""
    names = [name]
    if name.startswith("work/"):
        names.append(name.replace("work", "alias", 1))
    if name.startswith("notes/sub/"):
        names.append(name.replace("notes/sub", "sub alias", 1))
    detour = data.draw(st.sampled_from(["", "./", "notes/../", "alias/../", "sub alias/../../"]))
    start = data.draw(st.sampled_from(["..", str(tree), "../alias/.."]))
    return Path(f"{start}/{detour}{data.draw(st.sampled_from(names))}")
