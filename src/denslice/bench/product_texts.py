"""The folders of text files that products are given: real texts of some collections, with a few planted ones."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from denslice.corpus.documents import read_docs
from denslice.errors import InputError
from denslice.reproduce.collection import Collection, read_collection

SOURCES = ("acl-title-abstract", "medquad", "reuters-headline", "npl")  # of the large folder
JUDGED = ("fiqa-judged", "cranfield", "npl")  # nothing of them was trained on
LENGTH = 400  # characters of a text of the large folder, at most: as many words as passages of MS MARCO have
PARTS = 10  # folders within a folder, by which searches are filtered
QUESTIONS = 400  # at most: some collections have fewer
ROOT_NAME = "texts"
ABOUT = "about.json"
DocText = dict[str, str]  # id, part and text, as programs are given it


@dataclass(frozen=True)
class Planted:
    """A text about something that no other text is about, and questions for it and for what it is changed to.

    The two texts are about different things, so that a question about the first is not near to the second.
    """

    text: str
    question: str
    changed: str = ""
    changed_question: str = ""


PLANTED = (
    Planted(
        "A lighthouse keeper mended the copper astrolabe with beeswax before the herring fleet came home.",
        "who mended the copper astrolabe with beeswax?",
    ),
    Planted(
        "The marzipan hedgehogs of the convent bakery are glazed with quince jelly on the feast of Saint Lucy.",
        "marzipan hedgehogs glazed with quince jelly",
        "A municipal auditor counted the tram tickets of 1931 again and found that eleven had been punched twice.",
        "tram tickets that an auditor found punched twice",
    ),
    Planted(
        "Grandmother's accordion was tuned by a clockmaker who would only take pickled walnuts as payment.",
        "accordion tuned by a clockmaker for pickled walnuts",
    ),
)  # the last is not in the folder: it is added later


@dataclass(frozen=True)
class TextFolder:
    """A folder of texts in files PART/NUMBER.txt, and what is asked about them."""

    folder: Path  # has the folder `texts` and what tells about it

    @property
    def path(self) -> Path:
        """The folder that products read."""
        return self.folder / ROOT_NAME

    @cached_property
    def docs(self) -> list[DocText]:
        """Every document, in the order of their numbers."""
        return [_doc(path, self.path) for path in sorted(self.path.rglob("*.txt"), key=lambda one: one.name)]

    @cached_property
    def questions(self) -> list[str]:
        """The questions whose answers are timed."""
        found: list[str] = json.loads((self.folder / ABOUT).read_text(encoding="utf-8"))["questions"]
        return found

    def planted(self, at: int) -> DocText:
        """Return a planted document; the last one has the next number."""
        return _numbered(len(self.docs) - len(PLANTED) + 1 + at, PLANTED[at].text)


def large_folder(data: Path, work: Path, documents: int) -> TextFolder:
    """Return a folder of so many real texts, planted ones included; it is written unless it is there."""
    folder = work / "large"
    if not (folder / ABOUT).exists():
        collections = [read_collection(str(_of(data, name))) for name in SOURCES]
        texts = [_cut(text) for name in SOURCES for text in _texts(_of(data, name)) if text.strip()]
        texts = list(dict.fromkeys(texts))
        planted = [one.text for one in PLANTED[:-1]]
        if len(texts) + len(planted) < documents:
            raise InputError(f"{data}: {', '.join(SOURCES)} have {len(texts):,} texts, and {documents:,} are wanted")
        Random(1).shuffle(texts)
        questions = [query for one in collections for query in _some_questions(one)]
        Random(1).shuffle(questions)
        _write(folder, [*texts[: documents - len(planted)], *planted], {"questions": questions})
    return TextFolder(folder)


def judged_folder(data: Path, work: Path, name: str) -> tuple[TextFolder, Collection]:
    """Return the folder of a judged collection, whose files are numbered in the order of its documents."""
    folder, collection = work / name, read_collection(str(_of(data, name)))
    if not (folder / ABOUT).exists():
        _write(folder, _texts(_of(data, name)), {"questions": [query.text for query in collection.queries]})
    return TextFolder(folder), collection


def some_of(large: TextFolder, folder: Path, documents: int) -> TextFolder:
    """Return a folder with the first documents of another one."""
    if not (folder / ABOUT).exists():
        _write(folder, [doc["text"] for doc in large.docs[:documents]], {"questions": []})
    return TextFolder(folder)


def short_texts(large: TextFolder, folder: Path, documents: int, more: int) -> tuple[TextFolder, list[DocText]]:
    """Return a folder of so many of the shortest documents, and more of them that are not in it.

    Kills are about what is written, and short texts are encoded sooner.
    """
    texts = sorted((doc["text"] for doc in large.docs), key=len)[: documents + more]
    Random(1).shuffle(texts)
    if not (folder / ABOUT).exists():
        _write(folder, texts[:documents], {"questions": []})
    return TextFolder(folder), [_numbered(number, texts[number]) for number in range(documents, len(texts))]


def _of(data: Path, name: str) -> Path:
    if not (data / name / "corpus.jsonl").exists():
        raise InputError(f"{data / name}: no collection in BEIR's layout; --data names the folder that holds {name}")
    return data / name


def _texts(folder: Path) -> list[str]:
    """Return the texts as files hold them: the title is the first line."""
    return [f"{doc.title}\n\n{doc.text}" if doc.title else doc.text for doc in read_docs([folder])]


def _cut(text: str) -> str:
    """Return the beginning of a text, up to the end of a word."""
    return text if len(text) <= LENGTH else text[: LENGTH + 1].rpartition(" ")[0] or text[:LENGTH]


def _some_questions(collection: Collection) -> list[str]:
    texts = [query.text for query in collection.queries]
    return Random(1).sample(texts, min(len(texts), QUESTIONS // len(SOURCES)))


def _write(folder: Path, texts: Sequence[str], about: dict[str, Any]) -> None:
    """Write the files; the one that tells what is there comes last."""
    shutil.rmtree(folder, ignore_errors=True)
    for number in range(PARTS):
        (folder / ROOT_NAME / _part(number)).mkdir(parents=True)
    for number, text in enumerate(texts):
        (folder / ROOT_NAME / _name(number)).write_text(text, encoding="utf-8", newline="")
    (folder / ABOUT).write_text(json.dumps(about), encoding="utf-8")


def _numbered(number: int, text: str) -> DocText:
    return {"id": _name(number), "part": _part(number), "text": text}


def _name(number: int) -> str:
    return f"{_part(number)}/{number:06}.txt"


def _part(number: int) -> str:
    return f"part{number % PARTS}"


def _doc(path: Path, root: Path) -> DocText:
    id = path.relative_to(root).as_posix()
    return {"id": id, "part": path.parent.name, "text": path.read_text(encoding="utf-8")}
