"""The files of the demo: the docstrings of the running Python's standard library, one Markdown file for each module."""

from __future__ import annotations

import ast
import os
import sys
import sysconfig
import warnings
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from denslice.errors import InputError
from denslice.records import Doc

QUESTIONS = (
    "wrap a paragraph of text so that lines are not too long",
    "parse a date from an ISO format string",
    "compare two lists of lines and show the differences",
)

# Folders that are skipped: they hold no library, or one that newer Pythons have dropped.
NO_LIBRARY = {"__pycache__", "_bundled", "idlelib", "lib-dynload", "site-packages", "test", "tests", "turtledemo"}
DROPPED = {"distutils", "lib2to3"}
SHORTEST = 20  # characters of a docstring that is worth searching
LONGEST_SIGNATURE = 60

Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | Function


def write_library(folder: Path) -> list[Path]:
    """Write a Markdown file for each module, with a section for each class and function, and return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for module, docs in groupby(stdlib_docs(), key=lambda doc: doc.meta["module"]):
        files.append(folder / f"{module}.md")
        files[-1].write_text(_page(str(module), docs), encoding="utf-8")
    return files


def _page(module: str, docs: Iterable[Doc]) -> str:
    """Return the docstrings of a module as Markdown."""
    parts = [f"# {module}"]
    for doc in docs:
        parts += ([] if doc.id == module else [f"## {doc.title}"]) + [doc.text]
    return "\n\n".join(parts) + "\n"


def stdlib_docs() -> Iterator[Doc]:
    """Yield the docstring of every module, class, function and method of the standard library, by module name."""
    root = Path(sysconfig.get_paths()["stdlib"])
    seen: set[str] = set()
    for path in _sources(root):
        for doc in _file_docs(path, _module_name(path.relative_to(root))):
            if doc.id not in seen:
                seen.add(doc.id)
                yield doc
    if not seen:
        library = "Python {}.{}'s standard library".format(*sys.version_info)
        raise InputError(f"{root}: no source files of {library}, which the demo searches; install them")


def _sources(root: Path) -> Iterator[Path]:
    for here, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in NO_LIBRARY | DROPPED)
        yield from (Path(here, name) for name in sorted(names) if name.endswith(".py"))


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def _file_docs(path: Path, module: str) -> Iterator[Doc]:
    """Yield the documents of a file; none for the few files that do not parse."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of invalid escapes in the library's strings
            tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for name, node in _documented(tree, module):
        text = ast.get_docstring(node) or ""
        if len(text) >= SHORTEST:
            yield Doc(name, text, _title(name, node), {"module": module, "kind": _kind(node)})


def _documented(node: Documented, name: str) -> Iterator[tuple[str, Documented]]:
    """Yield the node and all public classes and functions of its body, each with its dotted name."""
    yield name, node
    if isinstance(node, Function):
        return
    for child in node.body:
        if isinstance(child, ast.ClassDef | Function) and not child.name.startswith("_"):
            yield from _documented(child, f"{name}.{child.name}")


def _title(name: str, node: Documented) -> str:
    """Return the dotted name, with the arguments of a function: `json.dumps(obj, *, skipkeys=False, …)`."""
    if not isinstance(node, Function):
        return name
    arguments = ast.unparse(node.args)
    if len(arguments) > LONGEST_SIGNATURE:
        arguments = arguments[:LONGEST_SIGNATURE].rpartition(", ")[0] + ", …"
    return f"{name}({arguments.removeprefix(', ')})"


def _kind(node: Documented) -> str:
    if isinstance(node, Function):
        return "function"
    return "class" if isinstance(node, ast.ClassDef) else "module"
