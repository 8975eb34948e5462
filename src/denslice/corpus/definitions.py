"""Definitions: the lines of a program that open a class or a function. They are its headings.

A program is not parsed. A line is a definition if it has the form of one in Python, Ruby, Lua, a shell or a language
with braces, and if something is inside it. The forms are narrow, so that prose has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from denslice.corpus.text_lines import INDENT, LONGEST_HEADING, NEW_LINE, Block, Heading, TextLine, outside

DEEPEST_INDENT = 2 * INDENT  # columns; what is defined further inside belongs to the definition around it
MOST_LEVELS = 3
ATTACHED = 500  # characters of a comment and its definition that are not cut; a longer comment may be cut
LONGEST_COMMENT = 3_000  # characters
_TYPES = (
    "class|struct|impl|trait|interface|enum|module|namespace|object|protocol|union|record|type"
    "|mod|extension|defmodule|contract"
)
_FUNCTIONS = "function|func|fn|fun|def|defp|sub"
_MODIFIERS = (
    "export|default|declare|public|private|protected|internal|static|abstract|final|sealed|partial|open|override"
    "|virtual|async|inline|unsafe|const|constexpr|extern|data|local|readonly|suspend|synchronized|native|case|pub"
)
_FIRST_WORDS = frozenset(f"{_TYPES}|{_FUNCTIONS}|{_MODIFIERS}".split("|"))
_OPENERS = (
    "def ",
    "class ",
    "async def ",
    "function ",
    "local function ",
    "module ",
    "defmodule ",
)  # of bodies without braces
_LATER_OPENERS = ("{\n", "\n{", *(f"\n{opener}" for opener in _OPENERS))
_STATEMENT_WORDS = (  # with which a line may look like a function without a keyword
    "if|else|elif|elseif|for|foreach|while|until|unless|switch|catch|except|return|new|throw|raise|do|with|using|lock"
    "|case|when|match|synchronized|await|yield|delete|typeof|assert|not|and|or|in|super|go|defer|func|function|fn"
)
_STATEMENTS = frozenset(_STATEMENT_WORDS.split("|"))
_keyword = re.compile(
    rf"(?:(?:{_MODIFIERS})(?:\([\w:]+\))?\s+)*(?P<keyword>(?P<type>{_TYPES})|(?:{_FUNCTIONS}))\b\*?(?:<[^>]*>)?\s+"
    r"(?:\([^)]*\)\s*)?(?P<name>[A-Za-z_$][\w$.:]*(?<!:)[?!]?)(?:<[^{(]*>)?(?P<for>\s+for\s+[\w:]+)?(?P<rest>.*)"
)
_assigned = re.compile(
    r"(?:(?:export|const|let|var|local)\s+)*(?P<name>[A-Za-z_$][\w.$]*)\s*(?:=|<-|:)\s*(?:async\s*)?"
    r"(?:function\b[^{}]*|\((?:[^(){}]|\{[^(){}]*\})*\)[^={}]*=>\s*|\w+\s*=>\s*)\{$"
)
_bare = re.compile(
    r"(?P<before>(?:[A-Za-z_@<][\w<>\[\],.*&:?]*\s+)*)[*&]*(?P<name>~?[A-Za-z_$][\w$]*(?:::~?[A-Za-z_]\w*)*)\s*"
    r"\((?:[^;{}()]|\([^;{}()]*\)|\{[^;{}()]*\})*\)[^;{}()=]*\{?$"
)
_comment_after = re.compile(r"\s+(?:#|//|--).*$|\s*/\*.*\*/$")
_in_one_line = re.compile(r"(?:def|class)\s+\w+\s*\([^#]*\)\s*(?:->[^:]+)?:\s")
_attached = re.compile(r"@|#[ \[:'#]|//|/\*|\*|--|\[[A-Z]\w*.*\]$|template\s*<|;;|%").match
_is_result = re.compile(r"[A-Za-z_][\w \t*]*$").match
_goes_on = re.compile(r"[\])}{\"'#]|\w+:$|end\b|else\b|elif\b|except\b|finally\b|fi\b|done\b|esac\b").match


class Definition(NamedTuple):
    """A line that opens a class or a function, by its number: how it is indented, its keyword and name, and which."""

    number: int
    indent: int
    text: str
    is_type: bool
    is_bare: bool = False  # has no keyword, as a function of C and a method of Java


def definitions(text: str, lines: Sequence[TextLine], fenced: Sequence[Block]) -> list[Heading]:
    """Return the definitions of a program as headings that are nested by indentation; of other texts there are none.

    A heading without text follows where a definition has ended and none begins.
    """
    if not text.startswith(_OPENERS) and not any(opener in text for opener in _LATER_OPENERS):
        return []
    numbers = [number for number in outside(len(lines), fenced) if _may_define(lines, number)]
    if not any(_definition(lines, number) for number in numbers if not lines[number].indent):
        return []
    strings = _inside_strings(text, lines)
    numbers = [number for number in numbers if number not in strings]
    found = _nested(definition for number in numbers if (definition := _definition(lines, number)))
    return list(_with_ends(lines, {heading.first: heading for heading in map(_Above(lines).heading, found)}))


def _inside_strings(text: str, lines: Sequence[TextLine]) -> set[int]:
    """Return the numbers of indented lines within strings of several lines, which may show examples."""
    inside: set[int] = set()
    for quotes in (quotes for quotes in ('"""', "'''") if quotes in text):
        is_open = False
        for number, line in enumerate(lines):
            is_open = is_open and (line.indent > 0 or not line.body.startswith(_OPENERS))
            if is_open and line.indent:
                inside.add(number)
            is_open ^= line.body.count(quotes) % 2 == 1
    return inside


def _may_define(lines: Sequence[TextLine], number: int) -> bool:
    """Return whether a line may be a definition, at a glance."""
    _, _, indent, body, _ = lines[number]
    if not body or indent > DEEPEST_INDENT or len(body) > LONGEST_HEADING:
        return False
    if body[-1] in "{}" or body.partition(" ")[0] in _FIRST_WORDS:
        return True
    return number + 1 < len(lines) and lines[number + 1].body[:1] == "{"


def _definition(lines: Sequence[TextLine], number: int) -> Definition | None:
    """Return the definition that a line opens, or None."""
    body = lines[number].body
    if "#" in body or "//" in body or "--" in body or "*/" in body:
        body = _comment_after.sub("", body)
    if found := _keyword.match(body):
        if not _opens_body(lines, number, body, found):
            return None
        name = found["name"] + (found["for"] or "")
        return Definition(number, lines[number].indent, f"{found['keyword']} {name}", found["type"] is not None)
    if not _has_brace(lines, number, body):
        return None
    if found := _assigned.match(body):
        return Definition(number, lines[number].indent, f"{found['name']}()", False)
    if (found := _bare.match(body)) and _is_function(lines, number, body, found):
        return Definition(number, lines[number].indent, f"{found['name']}()", False, True)
    return None


def _is_function(lines: Sequence[TextLine], number: int, body: str, found: re.Match[str]) -> bool:
    """Return whether a line without a keyword opens a function: no statement, and no prose that leads to JSON."""
    if not _STATEMENTS.isdisjoint([found["name"], *found["before"].split()]):
        return False
    inner = lines[number + 2].body if number + 2 < len(lines) else ""
    return body.endswith(("{", "}")) or (body[-1] != ":" and inner[:1] not in ('"', "{", "[", ""))


def _has_brace(lines: Sequence[TextLine], number: int, body: str) -> bool:
    """Return whether a line ends with the brace of a body, or the next line begins with it."""
    if body.endswith(("{", "}")):
        return True
    return number + 1 < len(lines) and lines[number + 1].body[:1] == "{" and not body.endswith((";", ","))


def _opens_body(lines: Sequence[TextLine], number: int, body: str, found: re.Match[str]) -> bool:
    """Return whether a line with a keyword has a body: in braces, indented below it, or in the same line."""
    if _has_brace(lines, number, body) or body.endswith(" do") or _in_one_line.match(body):
        return True
    if number + 1 == len(lines) or lines[number + 1].indent <= lines[number].indent:
        return False
    rest = found["rest"]
    is_open = not rest or (rest[0] in "([" and rest[-1] in "(:,)[")
    if found["type"]:
        return found["type"] in ("class", "module") and (is_open or rest == ":" or rest.startswith(" < "))
    return is_open


def _nested(found: Iterable[Definition]) -> Iterator[Definition]:
    """Yield the definitions of the outer levels; one without a keyword that is indented must be in a class."""
    around: list[Definition] = []
    for definition in found:
        around = [outer for outer in around if outer.indent < definition.indent]
        if definition.is_bare and definition.indent and not (around and around[-1].is_type):
            continue
        if len(around) < MOST_LEVELS:
            around.append(definition)
            yield definition


class _Above:
    """What stands above a definition and belongs to it: comments, decorators, and the type that it returns."""

    def __init__(self, lines: Sequence[TextLine]) -> None:
        self.lines = lines

    def heading(self, definition: Definition) -> Heading:
        """Return the definition as a heading, with what belongs to it."""
        first, end = self._first(definition), definition.number + 1
        if self.lines[end - 1].end - self.lines[first].start > ATTACHED:
            end = first + 1
        return Heading(first, end, definition.indent + 1, definition.text)

    def _first(self, definition: Definition) -> int:
        first = definition.number
        if definition.is_bare and self._is_joined(first) and _is_result(self.lines[first - 1].body):
            first -= 1
        if self._is_joined(first) and self.lines[first - 1].body.endswith("*/"):
            first = self._start_of_comment(first)
        while self._is_joined(first) and _attached(self.lines[first - 1].body) and self._is_near(first - 1, definition):
            first -= 1
        return first

    def _is_joined(self, number: int) -> bool:
        return number > 0 and self.lines[number].after == NEW_LINE

    def _is_near(self, number: int, definition: Definition) -> bool:
        line = self.lines[number]
        length = self.lines[definition.number].start - line.start
        return abs(line.indent - definition.indent) <= 1 and length <= LONGEST_COMMENT

    def _start_of_comment(self, number: int) -> int:
        """Return the first line of the comment that ends before a line, or that line if the comment is too long."""
        first = number - 1
        while first > 0 and not self.lines[first].body.startswith("/*"):
            first -= 1
            length = self.lines[number].start - self.lines[first].start
            if length > LONGEST_COMMENT or self.lines[first].body.endswith("*/"):
                return number
        return first


def _with_ends(lines: Sequence[TextLine], headings: dict[int, Heading]) -> Iterator[Heading]:
    """Yield the headings, and one without text where what was defined has ended and something else begins."""
    levels: list[int] = []
    end = 0
    for number, line in enumerate(lines):
        if heading := headings.get(number):
            end = heading.end
        elif number < end or not levels or line.indent >= levels[-1] or not _begins(line):
            continue
        else:
            heading = Heading(number, number + 1, min(level for level in levels if level > line.indent), "")
        levels = [level for level in levels if level < heading.level] + [heading.level] * bool(heading.text)
        yield heading


def _begins(line: TextLine) -> bool:
    """Return whether something new can begin with a line: not a comment, which may belong to a definition."""
    return line.after != NEW_LINE and not _goes_on(line.body) and not _attached(line.body)
