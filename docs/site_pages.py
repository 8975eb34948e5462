"""The pages of the documentation site that nobody types: root pages, the commands and the public names (mkdocs hook).

A Markdown file at the root of the repository, such as README.md, is a page of the site too. Links are written as
readers of the repository follow them; on the site they lead to its pages or, for code, to the hosted repository.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import Field, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import denslice
from denslice.__main__ import app
from denslice.options import IndexOptions, OpenOptions, SearchOptions, shown

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)")  # the target of a Markdown link, without its anchor
FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages at the root of the repository, the command reference and the API reference."""
    from mkdocs.structure.files import File

    for path in sorted(ROOT.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        files.append(File.generated(config, _site_path(path.name), content=text))
    files.append(File.generated(config, "commands.md", content="\n".join(command_reference())))
    files.append(File.generated(config, "api.md", content="\n".join(api_reference())))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point every relative link outside code blocks to a page of the site or to the hosted repository."""
    source = {_site_path(path.name): path.name for path in ROOT.glob("*.md")}
    folder = posixpath.dirname(source.get(page.file.src_uri, f"docs/{page.file.src_uri}"))
    here = posixpath.dirname(page.file.src_uri) or "."

    def target(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, link[1]))
        if files.get_file_from_path(_site_path(path)):
            return posixpath.relpath(_site_path(path), here)
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"{config.extra['repository']}/{kind}/main/{path}" if (ROOT / path).exists() else link[1]

    parts = FENCE.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(target, part) for part in parts)


def command_reference() -> Iterator[str]:
    """The lines of a page with the help of every command."""
    yield "# Commands\n"
    yield from _command(typer.main.get_command(app), "denslice")


def api_reference() -> Iterator[str]:
    """The lines of a page that mkdocstrings fills with the docstring of every public name."""
    public = sorted((getattr(denslice, name) for name in denslice.__all__), key=lambda one: one.__name__.lower())
    errors = [one for one in public if isinstance(one, type) and issubclass(one, Exception)]
    yield "# Python API\n\n```python\nimport denslice as ds\n```\n\n## Classes and functions\n"
    yield from (_public(one) for one in public if one not in errors)
    yield "## Options\n\nThe methods above take these as keyword arguments, and the commands as flags.\n"
    for options, of in ((SearchOptions, "searching"), (IndexOptions, "`Index.create`"), (OpenOptions, "opening")):
        yield f"### Options of {of}\n\n| option | type | default | meaning |\n|---|---|---|---|"
        yield from (_option(one) for one in shown(options))
        yield ""
    yield "## Errors and warnings\n"
    yield from map(_public, errors)


def _public(one: Any) -> str:
    """The line for a public name, by where it is defined: `denslice.gip` alone would be the module."""
    shows_fields = str(is_dataclass(one)).lower()  # other classes are not made by calling them
    return f"::: {one.__module__}.{one.__name__}\n    options:\n      merge_init_into_class: {shows_fields}\n"


def _option(one: Field[Any]) -> str:
    return f"| `{one.name}` | `{_cell(str(one.type))}` | `{one.default!r}` | {_cell(one.metadata['help'])} |"


def _site_path(path: str) -> str:
    """The path in the site of a file of the repository; one that is not on the site gets a path outside it."""
    if path == "README.md":
        return "index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"../{path}" if "/" in path else path.lower()


def _command(command: Any, name: str, level: int = 2) -> Iterator[str]:
    """A section with the usage, the help and the parameters of a command, then those of its subcommands."""
    context = typer.Context(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    yield f"{'#' * level} {name}\n\n{command.help}\n\n```\n{usage}\n```\n"
    records = [record for one in command.params if (record := one.get_help_record(context))]
    if records:
        yield "| option | meaning |\n|---|---|"
        yield from (f"| `{names}` | {_cell(told)} |" for names, told in records)
        yield ""
    for subcommand in getattr(command, "commands", {}).values():
        yield from _command(subcommand, f"{name} {subcommand.name}", level if name == "denslice" else level + 1)


def _cell(text: str) -> str:
    """The text as the cell of a Markdown table shows it."""
    return " ".join(text.split()).replace("|", "\\|").replace("[", "\\[").replace("<", "&lt;")
