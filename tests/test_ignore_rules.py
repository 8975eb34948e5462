"""Ignore files leave out what git leaves out."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from denslice.corpus.folder_walk import walk
from denslice.corpus.formats.source_file import Problem
from denslice.corpus.ignore_rules import parse_rules

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
NAMES = ["a", "b", "ab", "a b", "foo", "c.log", "é", "[x]", "a*", "!n", "b "]  # none is hidden or left out by itself
PARTS = r"""
    a b ab foo * ** *** ? *o* a*b *.log c.* é a\* \a \[x\] !n \!n #h \#h
    [ab] [!a] [^b]* *[b] [[:alpha:]] [[:alpha:]x] [[:nope:]] [a- [b-a] []x] [^]] [\]] [a-c-e] [--b] [a/b]
"""


def left_out(rules: str, path: str) -> bool | None:
    return parse_rules(rules.encode()).leaves_out(path.removesuffix("/"), path.endswith("/"))


@pytest.mark.parametrize(
    ("rules", "path", "is_left_out"),
    [
        ("*.log", "a/b.log", True),
        ("*.log", "a/b.txt", None),
        ("*.log\n!kept.log", "kept.log", False),
        ("/top", "a/top", None),
        ("build/", "build", None),
        ("build/", "a/build/", True),
        ("a/*/c", "a/b/b/c", None),
        ("a/**/c", "a/b/b/c", True),
        ("a/**/c", "a/c", True),
        ("a/**", "a/", None),
        ("a/**", "a/b", True),
        ("# comment\n\\#name", "#name", True),
        ("name   ", "name", True),
        ("\ufeffname\r\n", "name", True),
    ],
)
def test_the_last_rule_that_matches_decides(rules: str, path: str, is_left_out: bool | None) -> None:
    assert left_out(rules, path) is is_left_out


def test_a_negated_rule_may_keep_what_is_below_the_folders_it_names() -> None:
    rules = parse_rules(b"!data/*/kept.md\n!*.txt\nlogs/x\n")
    assert [rules.may_keep_below(folder) for folder in ("data", "data/a", "data/a/b", "logs")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("rule", ["*a" * 40 + "b", "x/" + "**/a*a/" * 30 + "b", "[!b]*" * 40 + "b", "a" * 100_000])
def test_a_rule_that_is_hard_to_match_takes_no_time(rule: str) -> None:
    assert left_out(rule, "x/" + "aaa/" * 60 + "a" * 200) is None


@needs_git
@pytest.mark.parametrize("seed", range(25))
def test_the_walk_finds_what_git_finds(tmp_path: Path, seed: int) -> None:
    choice = random.Random(seed)
    git(tmp_path, "init", "--quiet")
    grow(tmp_path, choice, depth=3)
    assert found(tmp_path) == git_finds(tmp_path)


@needs_git
@pytest.mark.parametrize("seed", range(10))
def test_in_a_folder_of_a_repository_the_walk_finds_what_git_finds(tmp_path: Path, seed: int) -> None:
    choice = random.Random(seed)
    git(tmp_path, "init", "--quiet")
    folder = tmp_path / "a" / "foo"
    folder.mkdir(parents=True)
    grow(folder, choice, depth=2)
    (folder / "file").touch()
    for above in (tmp_path, tmp_path / "a"):
        (above / ".gitignore").write_text("\n".join(pattern(choice) for _ in range(2)), encoding="utf-8")
    ignored = git(tmp_path, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory").splitlines()
    if not {"a/", "a/foo/"} & set(ignored):
        assert found(folder) == git_finds(folder)


def test_a_folder_that_its_repository_leaves_out_is_walked_if_it_is_named(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("data/*\n*.txt\n")
    (tmp_path / "data" / "mine").mkdir(parents=True)
    (tmp_path / "data" / "mine" / "a.txt").touch()
    assert found(tmp_path) == set()
    assert found(tmp_path / "data" / "mine") == {"a.txt"}


def test_ignore_files_above_a_folder_count_only_in_a_repository(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.txt\n")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").touch()
    assert found(tmp_path / "notes") == {"a.txt"}
    (tmp_path / ".git").mkdir()
    assert found(tmp_path / "notes") == set()


# --- .densliceignore


def test_a_densliceignore_leaves_out_more_than_git(tmp_path: Path) -> None:
    make(tmp_path, "a.txt", "b.txt", ignored="b.txt")
    assert found(tmp_path) == {"a.txt"}


@pytest.mark.parametrize(
    ("git_ignored", "ignored", "files"),
    [
        ("data/\n*.log", "!a.log", {"a.log"}),
        ("data/", "!data/", {"data/a.log", "data/b/c.md"}),
        ("data/", "!data/b/c.md", {"data/b/c.md"}),
        ("data/", "!data/b/", {"data/b/c.md"}),
        ("data/", "!data/**", {"data/a.log", "data/b/c.md"}),
        ("data/\n*.log", "!data/", {"data/b/c.md"}),
        ("data/", "!c.md", set()),  # as in git, a name alone is not looked for in what is left out
        ("data/", "data/\n!data/b/c.md", set()),
        ("!data/", "data/", set()),
    ],
)
def test_a_densliceignore_wins_over_gitignore(tmp_path: Path, git_ignored: str, ignored: str, files: set[str]) -> None:
    make(tmp_path, "data/a.log", "data/b/c.md", "a.log", ignored=ignored)
    (tmp_path / ".gitignore").write_text(f"/a.log\n{git_ignored}\n")
    assert found(tmp_path) == files


def test_a_densliceignore_above_wins_over_a_gitignore_below(tmp_path: Path) -> None:
    make(tmp_path, "cache/a.txt", ignored="!cache/a.txt")
    (tmp_path / "cache" / ".gitignore").write_text("*\n")
    assert found(tmp_path) == {"cache/a.txt"}


def test_an_ignore_file_that_is_a_pipe_or_a_link_does_not_count(tmp_path: Path) -> None:
    make(tmp_path, "a.txt", "rules", ignored="")
    (tmp_path / "rules").write_text("*.txt\n")
    (tmp_path / ".gitignore").symlink_to("rules")
    (tmp_path / ".densliceignore").unlink()
    os.mkfifo(tmp_path / ".densliceignore")
    assert found(tmp_path) == {"a.txt", "rules"}


def test_an_ignore_file_that_is_too_large_is_reported(tmp_path: Path) -> None:
    make(tmp_path, "sub/a.txt", ignored="")
    (tmp_path / "sub" / ".gitignore").write_bytes(b"#" * (1 << 20) + b"\n")
    problems: list[Problem] = []
    assert [file.relative for file in walk(tmp_path, problems.append)] == ["sub/a.txt"]
    assert problems == [("sub/.gitignore", "unreadable file", "larger than 1 MB")]


# --- trees


def make(folder: Path, *files: str, ignored: str) -> None:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (folder / ".densliceignore").write_text(ignored + "\n")


def grow(folder: Path, choice: random.Random, depth: int) -> None:
    """Fill a folder with random files, folders and .gitignore files."""
    for name in choice.sample(NAMES, choice.randint(2, 5)):
        if depth and choice.random() < 0.6:
            (folder / name).mkdir()
            grow(folder / name, choice, depth - 1)
        else:
            (folder / name).touch()
    if choice.random() < 0.5:
        lines = [pattern(choice) for _ in range(choice.randint(1, 5))]
        (folder / ".gitignore").write_text("\n".join(lines), encoding="utf-8")


def pattern(choice: random.Random) -> str:
    path = "/".join(choice.choices([*PARTS.split(), "b\\ ", ""], k=choice.choice([1, 1, 1, 2, 2, 3])))
    before, after = choice.choice(["", "", "!", "/", "!/"]), choice.choice(["", "", "/"])
    return before + path + after + choice.choice(["", "", " ", "\r", "\t"])


def found(folder: Path) -> set[str]:
    problems: list[Problem] = []
    relatives = {file.relative for file in walk(folder, problems.append)}
    assert problems == []
    return relatives


def git_finds(folder: Path) -> set[str]:
    names = git(folder, "ls-files", "--others", "--exclude-standard", "-z").split("\0")
    return {name for name in names if name and not name.endswith(".gitignore")}


def git(folder: Path, *arguments: str) -> str:
    alone = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "XDG_CONFIG_HOME": os.devnull}
    ran = subprocess.run(["git", *arguments], cwd=folder, env=alone, capture_output=True, check=True)
    return ran.stdout.decode()
