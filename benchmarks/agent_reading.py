"""Measures what agents read to answer a question: one that calls `search` over MCP, beside one that uses grep.

    python benchmarks/agent_reading.py COLLECTIONS [squad-dev] [--questions 100] [--encoder mini] [--level quick]

Each paragraph of the collection is a file. The agent with `search` asks the question as it is, through the SDK's client
over stdio, and reads the passages that come back. The agent with grep looks for the rarest words of the question in all
files: first for lines with all three, then with two, then with one, until something matches; it reads what grep prints,
up to the same budget. A second one does not stop there, but reads on until the budget is used. No model takes part: no
agent has another try with other words, and none chooses what it reads.

A question counts as `whole` if every sentence of its paragraph is among what was read, and as `half` if half of them
are: a long paragraph is cut into passages. Appends a line to results/agent_reading.jsonl.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from mcp import Client, StdioServerParameters, stdio_client
from mcp.types import TextContent
from tokenizers import Tokenizer

import denslice
import journal
from denslice import Doc, Index, Query
from denslice.agents.token_budget import BYTES_PER_TOKEN, tokens_of
from quality import judged

PACKAGES = ("numpy", "onnxruntime", "tokenizers", "mcp")
WORD = re.compile(r"\w+")
SENTENCE_END = re.compile(r"(?<=[.!?]) ")
WORDS = 3  # of a question, the rarest, that the agent with grep looks for
BUDGETS = (500, 1_000, 2_000, 4_000)  # tokens
Texts = dict[str, str]


@dataclass(frozen=True)
class Reading:
    """What an agent read for one question, in how many calls, and the share of the right paragraph that is in it."""

    text: str
    calls: int
    share: float


def main() -> None:
    """Measure, print and append the line."""
    given = _arguments()
    docs, queries, qrels = judged(given.folder, f"{given.collection}:test")
    chosen = random.Random(given.seed).sample(queries, given.questions)
    texts = {doc.id: flat(doc.text) for doc in docs}
    wanted = {query.id: texts[next(iter(qrels[query.id]))] for query in chosen}
    with TemporaryDirectory(prefix="denslice-agents-") as temporary:
        files, folder = Path(temporary, "files"), Path(temporary, "files.idx")
        write_files(docs, files)
        took = build(files, folder, given.encoder, given.level)
        print(f"{len(docs):,} files indexed in {took:.1f} s", flush=True)
        figures: dict[str, Any] = {"files": len(docs), "questions": len(chosen), "index_seconds": round(took, 1)}
        for budget in BUDGETS:
            ways = {
                "search": searched(folder, chosen, wanted, budget),
                "grep": grepped(files, texts, chosen, wanted, budget, reads_on=False),
                "grep, reads on": grepped(files, texts, chosen, wanted, budget, reads_on=True),
            }
            figures[str(budget)] = {way: summary(readings) for way, readings in ways.items()}
            print(budget, figures[str(budget)], flush=True)
    configuration = {key: getattr(given, key) for key in ("collection", "encoder", "level", "seed")}
    configuration |= {"budgets": BUDGETS, "words": WORDS, "bytes_per_token": BYTES_PER_TOKEN}
    print(journal.append("agent_reading", PACKAGES, configuration, figures))


def write_files(docs: Iterable[Doc], folder: Path) -> None:
    """Write each paragraph to a file of one line, with its title above it if there is one."""
    folder.mkdir()
    for doc in docs:
        head = f"# {doc.title}\n\n" if doc.title else ""
        (folder / f"{doc.id}.md").write_text(f"{head}{flat(doc.text)}\n", encoding="utf-8")


def build(files: Path, folder: Path, encoder: str, level: str) -> float:
    """Index the files and return the seconds it took."""
    began = time.perf_counter()
    with Index.create(folder, encoder) as index:
        index.sync(files, level=level)
    return time.perf_counter() - began


# --- the agent that searches


def searched(folder: Path, queries: Sequence[Query], wanted: Texts, budget: int) -> list[Reading]:
    """Return what the agent with `search` reads."""
    readings: list[Reading] = []

    async def ask() -> None:
        arguments = ["-m", "denslice", "mcp", str(folder), "--tokens", str(budget)]
        process = StdioServerParameters(command=sys.executable, args=arguments)
        with Path(os.devnull).open("w") as log:
            async with Client(stdio_client(process, errlog=log)) as client:
                for query in queries:
                    answer = await client.call_tool("search", {"query": plain(query.text), "k": 20})
                    text = "\n".join(one.text for one in answer.content if isinstance(one, TextContent))
                    readings.append(Reading(text, 1, share_read(text, wanted[query.id])))

    anyio.run(ask)
    return readings


def plain(question: str) -> str:
    """Return a question without the characters that are operators of a query."""
    return re.sub(r"[\"+*~:-]", " ", question)


# --- the agent that greps


def grepped(
    files: Path, texts: Texts, queries: Sequence[Query], wanted: Texts, budget: int, reads_on: bool
) -> list[Reading]:
    """Return what the agent with grep reads. How rare a word is, it knows from counting the files that have it."""
    having = Counter(word for text in texts.values() for word in set(words(text)))
    readings = []
    for query in queries:
        known = [word for word in dict.fromkeys(words(query.text)) if having[word]]
        rarest = sorted(known, key=lambda word: having[word])[:WORDS]
        text, calls = grep_fewer(files, rarest, budget if reads_on else 1)
        read = text.encode()[: int(budget * BYTES_PER_TOKEN)].decode(errors="ignore")
        readings.append(Reading(read, calls, share_read(read, wanted[query.id])))
    return readings


def grep_fewer(files: Path, rarest: Sequence[str], tokens: int) -> tuple[str, int]:
    """Return lines with all words, then with fewer, until these are enough tokens, and the number of calls."""
    read, calls = "", 0
    for count in range(len(rarest), 0, -1):
        for some in combinations(rarest, count):
            if tokens_of(read) >= tokens:
                return read, calls
            seen = set(read.splitlines())
            read += "".join(f"{line}\n" for line in grep(files, some) if line not in seen)
            calls += 1
    return read, calls


def grep(files: Path, rarest: Sequence[str]) -> list[str]:
    """Return what grep prints of the lines that have every word."""
    first, *others = rarest
    command = ["grep", "-r", "-i", "-w", "-F", "-e", first, "."]
    lines = subprocess.run(command, cwd=files, capture_output=True, text=True, check=False).stdout.splitlines()
    patterns = [re.compile(rf"\b{re.escape(word)}\b", re.IGNORECASE) for word in others]
    return [line for line in sorted(lines) if all(pattern.search(line) for pattern in patterns)]


# --- what was read


def flat(text: str) -> str:
    """Return a text on one line."""
    return " ".join(text.split())


def words(text: str) -> list[str]:
    """Return the words of a text in small letters."""
    return [word.lower() for word in WORD.findall(text)]


def share_read(text: str, paragraph: str) -> float:
    """Return the share of a paragraph's sentences that a text has."""
    whole, sentences = flat(text), SENTENCE_END.split(paragraph)
    return sum(sentence in whole for sentence in sentences) / len(sentences)


def summary(readings: Sequence[Reading]) -> dict[str, float]:
    """Return shares of the questions, and means of calls and of tokens: as estimated, and as word pieces of mini."""
    tokenizer = Tokenizer.from_file(str(Path(denslice.__file__).parent / "mini" / "tokenizer.json"))
    tokenizer.no_truncation()
    pieces = [len(one.ids) for one in tokenizer.encode_batch([reading.text for reading in readings])]
    count = len(readings)
    return {
        "whole": sum(reading.share == 1 for reading in readings) / count,
        "half": sum(reading.share >= 0.5 for reading in readings) / count,
        "tokens": round(sum(tokens_of(reading.text) for reading in readings) / count, 1),
        "word_pieces": round(sum(pieces) / count, 1),
        "calls": round(sum(reading.calls for reading in readings) / count, 2),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="COLLECTIONS")
    parser.add_argument("collection", nargs="?", default="squad-dev")
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--encoder", default="mini")
    parser.add_argument("--level", default="full", choices=["quick", "full"])
    parser.add_argument("--seed", type=int, default=7)
    return parser.parse_args()


if __name__ == "__main__":
    main()
