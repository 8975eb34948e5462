"""Front matter: the fields in YAML or TOML with which a Markdown file may begin."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from denslice.corpus.formats.source_file import SourceFile
from denslice.corpus.formats.stated_fields import plain_fields
from denslice.errors import MissingExtraError

LARGEST_FRONT_MATTER = 32_000  # characters
MOST_BRACKETS = 500  # of a kind: the parser's time grows with the square of their depth
_opens = re.compile(r"(?:---|\+\+\+)[ \t]*\n")
_ends = {"---": re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE), "+++": re.compile(r"^\+\+\+[ \t]*$", re.MULTILINE)}
_field = re.compile(r"^[\w-]+[ \t]*[:=]", re.MULTILINE)
_deep_line = re.compile(r"(?:[-?:][ \t]+){16}")  # nested lists in one line, each of which takes stack in the parser


class FrontMatter(NamedTuple):
    """The fields at the beginning of a text, and the text after them."""

    fields: Mapping[str, Any]
    text: str


def front_matter(file: SourceFile, text: str) -> FrontMatter:
    """Return the fields with which a text begins, and the rest. Broken ones stay in the text, and are remarked on."""
    opened = _opens.match(text)
    if opened is None:
        return FrontMatter({}, text)
    sign = opened[0][:3]
    closed = _ends[sign].search(text, opened.end(), opened.end() + LARGEST_FRONT_MATTER)
    if closed is None:
        return _broken(file, text, opened.end(), "never closed, or too large")
    try:
        fields = _parsed(sign, text[opened.end() : closed.start()])
    except (ValueError, OverflowError) as error:
        return _broken(file, text, opened.end(), str(error)[:200])
    return FrontMatter({}, text) if fields is None else FrontMatter(fields, text[closed.end() :].lstrip("\n"))


def _broken(file: SourceFile, text: str, start: int, problem: str) -> FrontMatter:
    """Return the text without fields. A rule that is followed by prose is no front matter, and not remarked on."""
    if _field.match(text, start):
        file.remark(f"the front matter is read as text: {problem}")
    return FrontMatter({}, text)


def _parsed(sign: str, block: str) -> dict[str, Any] | None:
    """Return the fields of front matter, or None if it is a text between rules; raise ValueError if it is broken."""
    given = _toml(block) if sign == "+++" else _yaml(block)
    if given is None:
        return None if block.strip() and not block.lstrip().startswith("#") else {}
    return plain_fields(given) if isinstance(given, dict) else None


def _toml(block: str) -> object:
    try:
        return tomllib.loads(block)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _yaml(block: str) -> object:
    if max(block.count("["), block.count("{")) > MOST_BRACKETS or _deep_line.search(block):
        raise ValueError("nested too deeply")
    try:
        import yaml
    except ImportError:
        raise MissingExtraError("reading front matter", "files") from None
    try:
        return yaml.load(block, Loader=_loader())
    except yaml.MarkedYAMLError as error:
        raise ValueError(_told(error.problem, error.problem_mark)) from None
    except yaml.YAMLError:
        raise ValueError("characters that YAML does not allow") from None
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
        # which PyYAML raises when it converts what looks like a number or a date, or has a tag such as !!int
        raise ValueError("a value that is not what its form or its tag says") from None


def _told(problem: str | None, mark: Any) -> str:
    return f"{problem} in line {mark.line + 2}" if mark else str(problem)  # the first line opens the front matter


@cache
def _loader() -> Any:
    """Return PyYAML's safe loader, which constructs plain values only, with unknown tags as text.

    It does not follow merge keys, whose references can be nested to take exponential time.
    """
    import yaml

    safe = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same, ten times as fast
    loader: Any = type("_FieldLoader", (safe,), {"flatten_mapping": lambda self, node: None})
    loader.add_constructor(None, lambda _, node: node.value if isinstance(node.value, str) else None)
    return loader
