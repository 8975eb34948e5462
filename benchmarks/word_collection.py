"""A large collection of short English documents, and the questions that engines are asked about it.

Documents are the distinct sentences of the collections of a folder, each with a year and a topic, which are random.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path

from denslice.corpus.documents import read_docs, read_queries
from typos import content_words, one_edit

SOURCES = ("acl-title-abstract", "squad-dev", "scifact", "medquad", "reuters-headline", "nfcorpus")  # in this order
ASKED = ("squad-dev", "scifact", "fiqa-judged")  # whose queries are plain questions
WORDS = range(4, 80)  # of a sentence
YEARS, TOPICS = range(2000, 2021), tuple(f"topic-{number}" for number in range(50))
FREQUENT = 300  # words of which frequent phrases consist
PREFIX = range(3, 6)  # letters
FUZZY = range(5, 8)  # letters, of which every engine allows one edit
SEED = 21
_sentence_ends = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_runs = re.compile(r"[A-Za-z]+(?: [A-Za-z]+)+")  # words with nothing but a space between them


@dataclass(frozen=True)
class Sentence:
    """A document: its number, text, year and topic."""

    number: int
    text: str
    year: int
    topic: str


@dataclass(frozen=True)
class Question:
    """What is asked: the words of a phrase, a prefix, a misspelt word, or a plain text as one word."""

    kind: str  # plain, phrase, prefix, fuzzy or facets
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        """The words with a space between them."""
        return " ".join(self.words)


def sentences(folder: Path, count: int) -> list[Sentence]:
    """Return so many distinct sentences; raise if the collections have fewer."""
    chosen = random.Random(SEED)
    texts = list(islice(dict.fromkeys(chain.from_iterable(map(_sentences_of, _folders(folder)))), count))
    if len(texts) < count:
        raise SystemExit(f"the collections have {len(texts):,} sentences, and {count:,} are asked for")
    return [Sentence(at, text, chosen.choice(YEARS), chosen.choice(TOPICS)) for at, text in enumerate(texts)]


def questions(folder: Path, docs: Sequence[Sentence], count: int) -> dict[str, list[Question]]:
    """Return so many different questions of each kind, in random order; those of phrases and words occur."""
    chosen = random.Random(SEED)
    counts = Counter(chain.from_iterable(doc.text.casefold().split() for doc in docs))
    frequent = {word for word, _ in counts.most_common(FREQUENT)}
    made: dict[str, Callable[[], Question | None]] = {
        "phrase of 2": partial(_phrase, docs, chosen, 2),
        "phrase of 2 frequent words": partial(_phrase, docs, chosen, 2, frequent),
        "phrase of 4": partial(_phrase, docs, chosen, 4),
        "prefix": partial(_prefix, docs, chosen),
        "fuzzy": partial(_misspelt, docs, chosen),
        "facets": partial(_two_words, docs, chosen),
    }
    asked = [query.text for name in ASKED for query in islice(read_queries(folder / name), 10 * count)]
    plain = [Question("plain", (text,)) for text in chosen.sample(asked, count)]
    return {"plain": plain} | {kind: _different(make, count) for kind, make in made.items()}


def _folders(folder: Path) -> Iterator[Path]:
    return (folder / name for name in SOURCES)


def _sentences_of(folder: Path) -> Iterator[str]:
    for doc in read_docs([folder]):
        for text in _sentence_ends.split(doc.contents):
            if len(text.split()) in WORDS:
                yield " ".join(text.split())


def _different(make: Callable[[], Question | None], count: int) -> list[Question]:
    found: dict[Question, None] = {}
    while len(found) < count:
        if one := make():
            found[one] = None
    return list(found)


def _phrase(
    docs: Sequence[Sentence], chosen: random.Random, length: int, among: set[str] | None = None
) -> Question | None:
    """Return words that follow each other in a document with spaces alone between them, all of them among some."""
    runs = [run.split() for run in _runs.findall(chosen.choice(docs).text)]
    starts = [(run, at) for run in runs for at in range(len(run) - length + 1)]
    if not starts:
        return None
    run, at = chosen.choice(starts)
    words = tuple(word.casefold() for word in run[at : at + length])
    return Question("phrase", words) if among is None or among.issuperset(words) else None


def _prefix(docs: Sequence[Sentence], chosen: random.Random) -> Question | None:
    length = chosen.choice(PREFIX)
    word = _content_word(docs, chosen)
    return Question("prefix", (word[:length],)) if word and len(word) > length else None


def _misspelt(docs: Sequence[Sentence], chosen: random.Random) -> Question | None:
    word = _content_word(docs, chosen)
    edited = one_edit(word, chosen) if word else ""
    return Question("fuzzy", (edited,)) if len(edited) in FUZZY else None


def _two_words(docs: Sequence[Sentence], chosen: random.Random) -> Question | None:
    words = (_content_word(docs, chosen), _content_word(docs, chosen))
    return Question("facets", words) if all(words) and len(set(words)) == len(words) else None


def _content_word(docs: Sequence[Sentence], chosen: random.Random) -> str:
    """Return a word of a random document, if it has one of ASCII letters that is no stop word."""
    words = [match.group() for match in content_words(chosen.choice(docs).text) if match.group().isascii()]
    return chosen.choice(words).casefold() if words else ""
