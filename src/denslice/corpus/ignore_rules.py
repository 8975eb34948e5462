"""The rules of .gitignore and .densliceignore files, matched as git matches them.

Git asks about each file and folder by itself: the last rule that matches its path decides, and nothing below a folder
that is left out is asked about. pathspec answers for whole paths, which differs once a negated rule is below a folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

SLASH, STAR, STARS, NEVER = "/", "*", "**", "(?!)"
POSIX_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t-\r",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}
_trailing_spaces = re.compile(r"((?:\\.|[^\\])*?) *", re.DOTALL)
_token = re.compile(
    r"(?P<slash>\\?/)|(?P<stars>\*+)|(?P<one>\?)|\\(?P<escaped>.)"
    r"|\[(?P<negated>[!^]?)(?P<members>\]?(?:\[:[a-z]*:\]|\\.|[^\]\\])*)\]|(?P<plain>[^\\\[])|(?P<broken>.)",
    re.DOTALL,
)
_member = re.compile(r"\[:(?P<name>[a-z]*):\]|\\?(?P<low>.)(?:-\\?(?P<high>.))?", re.DOTALL)

Item = TypeVar("Item")
Part = list[str]  # of a pattern between two slashes: STAR, STARS, or the regular expression of one character
ANY_FOLDERS: Part = [STARS]


class IgnoreRule(NamedTuple):
    """One line of an ignore file."""

    parts: list[Part]
    negated: bool  # what matches is kept
    only_folders: bool

    @property
    def is_name(self) -> bool:
        """Whether the rule matches the last part of a path alone."""
        return len(self.parts) == 2 and self.parts[0] == ANY_FOLDERS != self.parts[1]


class RuleUnion(NamedTuple):
    """One regular expression for several rules. Its groups are the rules, the last one first."""

    regex: re.Pattern[str]
    numbers: Sequence[int]  # of the rules in the file

    def last_match(self, text: str) -> int:
        """Return the number of the last rule that matches, or -1."""
        found = self.regex.fullmatch(text)
        return self.numbers[found.lastindex - 1] if found and found.lastindex else -1


class IgnoreRules:
    """The rules of one ignore file, for paths relative to its folder."""

    def __init__(self, rules: Sequence[IgnoreRule]) -> None:
        self._rules = rules
        numbered = list(enumerate(rules))
        self._of_folders = _unions(numbered)
        self._of_files = _unions([(number, rule) for number, rule in numbered if not rule.only_folders])
        self._above_kept = re.compile("|".join(_above_kept(rules)) or NEVER, re.DOTALL)

    def leaves_out(self, path: str, is_folder: bool) -> bool | None:
        """Return whether the last rule that matches a path leaves it out, or None if no rule matches."""
        of_names, of_paths = self._of_folders if is_folder else self._of_files
        path = _byte_text(path)
        last = max(of_names.last_match(path.rpartition("/")[2]), of_paths.last_match(path))
        return None if last < 0 else not self._rules[last].negated

    def may_keep_below(self, folder: str) -> bool:
        """Return whether a negated rule names paths that may be below a folder: `!data/kept.md` below `data`."""
        return self._above_kept.fullmatch(_byte_text(folder)) is not None


def parse_rules(raw: bytes) -> IgnoreRules:
    """Return the rules in an ignore file."""
    lines = raw.removeprefix(b"\xef\xbb\xbf").decode("latin-1").split("\n")
    rules = (_rule(line.removesuffix("\r")) for line in lines if not line.startswith("#"))
    return IgnoreRules([rule for rule in rules if rule])


def _byte_text(path: str) -> str:
    """Return the path with a character for each byte: to git, ? is one byte."""
    return path if path.isascii() else os.fsencode(path).decode("latin-1")


def _rule(line: str) -> IgnoreRule | None:
    found = _trailing_spaces.fullmatch(line)
    pattern = found[1] if found else line  # one that ends in a lone backslash, which matches nothing
    negated, pattern = pattern.startswith("!"), pattern.removeprefix("!")
    only_folders, pattern = pattern.endswith("/"), pattern.removesuffix("/")
    if not pattern:
        return None
    parts = _split(_tokens(pattern.removeprefix("/")), SLASH)
    return IgnoreRule(parts if "/" in pattern else [ANY_FOLDERS, *parts], negated, only_folders)


def _split(items: Iterable[Item], separator: Item) -> list[list[Item]]:
    """Return the items before, between and after the separators."""
    pieces: list[list[Item]] = [[]]
    for item in items:
        if item == separator:
            pieces.append([])
        else:
            pieces[-1].append(item)
    return pieces


def _tokens(pattern: str) -> Iterator[str]:
    """Yield SLASH, STAR, STARS, or the regular expression of one character for each token of a pattern."""
    for found in _token.finditer(pattern):
        kind = found.lastgroup
        if kind == "slash":
            yield SLASH
        elif kind == "stars":
            yield STAR if found["stars"] == "*" else STARS
        elif kind == "one":
            yield "[^/]"
        elif kind == "members":
            yield _character_class(found["members"], bool(found["negated"]))
        else:
            yield NEVER if kind == "broken" else re.escape(found[str(kind)])


def _character_class(members: str, negated: bool) -> str:
    """Return the regular expression of `[a-z]`, which never matches a slash."""
    inside = ""
    for found in _member.finditer(members):
        if found["name"] is not None:
            if found["name"] not in POSIX_CLASSES:
                return NEVER
            inside += POSIX_CLASSES[found["name"]]
        else:
            low, high = found["low"], found["high"] or ""
            inside += re.escape(low) + (f"-{re.escape(high)}" if high > low else "")  # [b-a] is b
    if negated:
        return f"[^/{inside}]"
    return f"(?!/)[{inside}]" if inside else NEVER


# --- regular expressions of whole patterns


def _unions(numbered: Sequence[tuple[int, IgnoreRule]]) -> tuple[RuleUnion, RuleUnion]:
    """Return the rules of names, which are most and are matched fast, and those of paths."""
    names = [(number, _part_regex(rule.parts[1])) for number, rule in numbered if rule.is_name]
    paths = [(number, _regex(rule.parts)) for number, rule in numbered if not rule.is_name]
    return _union(names), _union(paths)


def _union(regexes: Sequence[tuple[int, str]]) -> RuleUnion:
    last_first = regexes[::-1]
    regex = "|".join(f"({regex})" for _, regex in last_first) or NEVER
    return RuleUnion(re.compile(regex, re.DOTALL), [number for number, _ in last_first])


def _above_kept(rules: Iterable[IgnoreRule]) -> Iterator[str]:
    """Yield the regular expressions of the folders above what negated rules name from the ignore file's folder on."""
    for rule in rules:
        if rule.negated and rule.parts[0] != ANY_FOLDERS:
            yield from (_regex(rule.parts[:depth]) for depth in range(1, len(rule.parts)))


def _regex(parts: Sequence[Part]) -> str:
    """Return the regular expression of the parts of a pattern, in which ** are any number of folders.

    Between two **, the first place that matches is as good as any later one; that it is never tried again (?>…) keeps
    matching fast for every pattern.
    """
    first, *others = [list(map(_part_regex, chunk)) for chunk in _split(parts, ANY_FOLDERS)]
    if not others:
        return "/".join(first)
    *middle, last = others
    between = "".join(f"(?>(?:[^/]*/)*?{_folders(chunk)})" for chunk in middle if chunk)
    return _folders(first) + between + (f"(?:.*/)?{'/'.join(last)}" if last else ".+")


def _folders(regexes: Iterable[str]) -> str:
    return "".join(f"{regex}/" for regex in regexes)


def _part_regex(part: Part) -> str:
    """Return the regular expression of a pattern without slashes, which tries a place only once like `_regex`."""
    first, *others = ["".join(piece) for piece in _split((STAR if one == STARS else one for one in part), STAR)]
    if not others:
        return first
    *middle, last = others
    return first + "".join(f"(?>[^/]*?{piece})" for piece in middle) + "[^/]*" + last
