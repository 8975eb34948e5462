"""Collects the texts that teach mini from folders of public sources: paragraphs of prose, and strings of data files.

No text stays that shares eight words in a row with a test set, and no source gives more than its share.
"""

from __future__ import annotations

import csv
import gzip
import html
import io
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from random import Random
from typing import Any

from journal import ROOT
from make_mini import is_recent, qrels_of, rows_of

SOURCES = ROOT / "configs" / "join" / "sources.toml"
SHARE = 12_000_000  # characters of a source
SHORTEST, LONGEST, CUT = 12, 6000, 2500  # characters of a text: others are no prose; what is kept is cut
LARGEST_FILE = 120_000_000
RUN = 8  # words
COMMON = frozenset(
    re.findall(
        r"\w+",
        "the of and to in a is that for it as was with be by on not he his but at are this have from or had an they "
        "which you were her all she there would their we him been has when who will more no if out so said what up its "
        "about into than them can only other new some could time these may then do first any my now such like our me i",
    )
)
SKIPPED = re.compile(r"(?i)(^|/)(node_modules|locales?|i18n|package-lock|tests?|fixtures|licen[cs]e|translations?)")
MARKUP = [
    (re.compile(r"<[^>\n]{1,300}>"), " "),
    (re.compile(r"!\[[^\]]*\]\([^)]*\)"), " "),
    (re.compile(r"\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"\{[%{][^}]*[%}]\}"), " "),
    (re.compile(r"[`*_#|>]+"), " "),
]
csv.field_size_limit(LARGEST_FILE)


def collect(folders: Path, collections: Path, out: Path) -> None:
    """Write a line for each text of the named sources' folders, and of what the first edition was trained on."""
    tested = {run for text in test_texts(collections) for run in runs_of(text)}
    sources = {name: texts_of(folders / name) for name in tomllib.loads(SOURCES.read_text())}
    sources |= {name: training_texts(collections / name) for name in ("medquad", "scitldr", "scifact")}
    sources["acl"] = training_texts(collections / "acl-title-abstract", is_recent)
    sources["squad"] = training_texts(collections / "squad-train-sent")
    seen: set[str] = set()
    with out.open("w", encoding="utf-8") as lines:
        for name, texts in sources.items():
            count = size = 0
            for text in texts:
                begin = text.lower()[:200]
                if begin in seen or any(run in tested for run in runs_of(text)):
                    continue
                seen.add(begin)
                lines.write(text[:CUT] + "\n")
                count, size = count + 1, size + min(len(text), CUT)
            print(f"{name}: {count:,} texts, {size / 1e6:.1f} MB", file=sys.stderr)


def test_texts(collections: Path) -> Iterator[str]:
    """Yield the documents and queries of the test sets; of SciFact, whose abstracts are trained on, the test claims."""
    for name in ("cranfield", "npl", "squad-dev", "fiqa-judged"):
        for file in ("corpus", "queries"):
            yield from (row["text"] for row in rows_of(collections / name / f"{file}.jsonl"))
    scifact = collections / "scifact"
    asked = {query for query, *_ in qrels_of(scifact, "test")}
    yield from (row["text"] for row in rows_of(scifact / "queries.jsonl") if row["_id"] in asked)


def runs_of(text: str) -> Iterator[int]:
    """Yield a number for each run of eight words."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    return (hash(tuple(words[at : at + RUN])) for at in range(len(words) - RUN + 1))


def training_texts(folder: Path, wanted: Callable[[str], bool] = lambda _: True) -> Iterator[str]:
    """Yield titles and texts of the documents of a collection that are wanted, and their training queries."""
    for row in rows_of(folder / "corpus.jsonl"):
        if wanted(row["_id"]):
            yield from (tidy(row.get(key, "")) for key in ("title", "text") if len(row.get(key, "")) >= SHORTEST)
    asked = {query for query, doc, _ in qrels_of(folder, "train") if wanted(doc)}
    yield from (tidy(row["text"]) for row in rows_of(folder / "queries.jsonl") if row["_id"] in asked)


# --- folders


def texts_of(folder: Path) -> Iterator[str]:
    """Yield English texts of a source's files, in an order that does not depend on where they lie."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    files = [path for path in files if not SKIPPED.search(str(path.relative_to(folder)))]
    Random(1).shuffle(files)
    size = 0

    def counted(text: str) -> bool:
        nonlocal size
        size += len(text)
        return size < SHARE

    return takewhile(counted, (text for path in files for text in texts_in(path) if is_english(text)))


def texts_in(path: Path) -> Iterable[str]:
    """Return the texts of a file, or nothing if it is none."""
    name = path.name.lower()
    if path.stat().st_size > LARGEST_FILE:
        return []
    raw = path.read_bytes()
    if name.endswith((".gz", ".dz")):
        raw, name = gzip.decompress(raw), name[:-3]
    if b"\0" in raw[:2000]:
        return []
    text, kind = raw.decode("utf-8", "replace"), name.rpartition(".")[2]
    try:
        return [tidy(one) for one in READERS[kind](text)] if kind in READERS else []
    except (ValueError, csv.Error):
        return []


def prose(text: str) -> Iterator[str]:
    """Yield paragraphs, without code and what mails quote."""
    text = re.sub(r"(?m)^[>|:]+ ?", "", re.sub(r"(?s)```.*?```", "\n\n", text))
    for paragraph in re.split(r"\n\s*\n", text):
        yield from paragraph.split("\n") if len(paragraph) > LONGEST else [paragraph]  # a list, line by line


def page(text: str) -> Iterator[str]:
    """Yield the paragraphs of HTML."""
    text = re.sub(r"(?is)<(script|style|head|pre).*?</\1>", " ", text)
    yield from prose(re.sub(r"(?i)</?(p|div|li|td|h\d|br|section|dd|dt)[^>]*>", "\n\n", text))


def strings(node: Any) -> Iterator[str]:
    """Yield all strings of a JSON value."""
    if isinstance(node, str):
        yield node
    for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from strings(part)


def cells(text: str, delimiter: str) -> Iterator[str]:
    """Yield the cells of a table."""
    for row in csv.reader(io.StringIO(text), delimiter=delimiter):
        yield from row


READERS: dict[str, Callable[[str], Iterator[str]]] = {
    **dict.fromkeys(("md", "mdx", "rst", "txt", "adoc", "asciidoc", "mediawiki", "org"), prose),
    **dict.fromkeys(("html", "htm", "xhtml", "erb"), page),
    "json": lambda text: strings(json.loads(text)),
    "jsonl": lambda text: (one for line in text.splitlines() for one in strings(json.loads(line))),
    "xml": lambda text: iter(re.findall(r">([^<]{30,})<", text)),
    "csv": lambda text: cells(text, ","),
    "tsv": lambda text: cells(text, "\t"),
}


def tidy(text: str) -> str:
    """Return a text on one line, without markup."""
    for pattern, new in MARKUP:
        text = pattern.sub(new, text)
    return " ".join(html.unescape(text).split())


def is_english(text: str) -> bool:
    """Return whether a text is English prose rather than code, a list of names or another language."""
    words = re.findall(r"[a-z']+", text.lower())
    if not SHORTEST <= len(text) <= LONGEST or len(words) < 3:
        return False
    letters = sum(character.isalpha() or character == " " for character in text)
    common = sum(word in COMMON for word in words)
    return letters >= 0.8 * len(text) and common >= (0.15 if len(words) > 12 else 0.1) * len(words)
