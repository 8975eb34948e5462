"""ARCHITECTURE.md tells the truth about the tree, and every name in the tree means one thing."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "denslice"
PAGE = ROOT / "ARCHITECTURE.md"
TWICE = {"DensliceRetriever", "DensliceVectorStore"}  # one for each library, where it is the only one


def test_every_folder_has_its_question() -> None:
    page = PAGE.read_text(encoding="utf-8")
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    questions = "".join(line for line in page.splitlines() if line.startswith("| `"))
    assert {name for name in folders if f"`{name}/`" not in questions} == set()


def test_every_file_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`(?:\w+/)*\w+\.(?:py|md|cu)`", PAGE.read_text(encoding="utf-8")))
    files = [path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.*")]
    assert len(named) > 30
    missing = {name for name in named if not any(f"/{file}".endswith(f"/{name.strip('`')}") for file in files)}
    assert missing == set()


def test_every_function_that_the_page_names_is_defined() -> None:
    rows = [line.split("|") for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    named = {name for row in rows if len(row) == 5 for name in re.findall(r"`(\w+)(?:\.(\w+))?`", row[2])}
    nodes = [node for path in PACKAGE.rglob("*.py") for node in ast.walk(parsed(path))]
    defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)}
    assert len(named) > 20
    assert {part for both in named for part in both if part} - defined - {"manifest"} == set()


def test_no_file_and_no_class_has_the_name_of_another() -> None:
    files = Counter(path.name for path in PACKAGE.rglob("*.py") if not path.name.startswith("__"))
    classes = Counter(
        node.name for path in PACKAGE.rglob("*.py") for node in ast.walk(parsed(path)) if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in files.items() if count > 1] == []
    assert {name for name, count in classes.items() if count > 1} == TWICE


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))
