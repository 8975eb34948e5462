"""How `denslice bench products` talks to the program of a product: a line of JSON for each question and each answer.

Every program runs in an environment of its own, so this file imports nothing but the standard library. What libraries
print goes to the log; answers have the standard output for themselves.
"""

from __future__ import annotations

import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypedDict


class Text(TypedDict):
    """A document: its path in the folder of texts, such as part3/000123.txt, the part that it is in, and its text."""

    id: str
    part: str
    text: str


def read_texts(folder: Path) -> list[Text]:
    """Return the documents of a folder, for products that do not read files."""
    paths = sorted(folder.rglob("*.txt"))
    return [
        {"id": path.relative_to(folder).as_posix(), "part": path.parent.name, "text": path.read_text(encoding="utf-8")}
        for path in paths
    ]


class Product(ABC):
    """A product with one store, used as its documentation shows.

    The file of a product holds what the first answer needs first; what comes after the line `# --- more` is not counted
    among its lines of code.
    """

    search_kind = "hybrid"  # or words, or vectors: how it ranks
    needs_minilm = True  # its vectors are those of MiniLM, which it does not bring with it
    packages: Sequence[str] = ()  # whose versions are recorded
    about_model = ""  # why it needs MiniLM, or which model it has
    explains = "nothing"  # what it tells about a score

    def __init__(self, store: Path, way: str) -> None:
        self.store = store  # a path in an empty folder, at which the product may make a file or a folder
        self.way = way  # of products that are measured in several ways

    @abstractmethod
    def build(self, folder: Path) -> int:
        """Store the files FOLDER/PART/NAME.txt, so that they can be searched, and return how many are left to do.

        As long as some are left, it is called again, possibly in another process.
        """

    @abstractmethod
    def search(self, text: str, k: int) -> list[str]:
        """Return the ids of the best documents."""

    @abstractmethod
    def open(self) -> None:
        """Open the store that another process has built."""

    @abstractmethod
    def search_in(self, part: str, text: str, k: int) -> list[str]:
        """Return the ids of the best documents of one part."""

    @abstractmethod
    def ids(self) -> list[str]:
        """Return the id of every document; one that is stored twice comes twice."""

    @abstractmethod
    def add(self, docs: Sequence[Text]) -> None:
        """Add documents, in place of those with the same ids. When it returns, they count as stored."""

    @abstractmethod
    def delete(self, ids: Sequence[str]) -> None:
        """Delete documents."""

    def explain(self, text: str, id: str) -> Any:
        """Return what the product tells about the score of a document."""
        return None

    def about(self) -> dict[str, Any]:
        """Return what does not depend on the documents."""
        told = ("search_kind", "needs_minilm", "about_model", "explains")
        return {name: getattr(self, name) for name in told} | {"versions": {one: version(one) for one in self.packages}}


def answer_all(product: type[Product]) -> None:
    """Answer the questions on standard input until it ends: `PROGRAM STORE WAY`."""
    made = product(Path(sys.argv[1]), sys.argv[2])
    does: Mapping[str, Callable[..., Any]] = {
        "about": made.about,
        "nothing": lambda: None,
        "build": lambda folder: made.build(Path(folder)),
        "open": made.open,
        "search": made.search,
        "search_in": made.search_in,
        "ids": made.ids,
        "add": made.add,
        "delete": made.delete,
        "explain": lambda **asked: _shown(made.explain(**asked)),
    }
    answer_lines(does)


def answer_lines(does: Mapping[str, Callable[..., Any]]) -> None:
    """Answer each line {"do": NAME, …} with a line {"done": …}; an error ends the program."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        for line in sys.stdin:
            asked = json.loads(line)
            done = does[asked.pop("do")](**asked)
            answers.write(json.dumps({"done": done}) + "\n")
            answers.flush()


def _shown(found: Any) -> str | None:
    """Return an explanation as text."""
    return None if found is None else found if isinstance(found, str) else json.dumps(found, default=str)
