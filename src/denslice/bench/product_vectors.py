"""The vectors of MiniLM for all products that need it: computed once, in chunks that survive an interruption.

Texts are encoded many at a time, and a text's share of the seconds is counted for each product that needs its vector.
Queries are encoded one by one, because that is how they come, and each keeps its own time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

from denslice.bench.product_process import ProductProcess, ProductProgram, core_share, python_of
from denslice.cores import cores
from denslice.provenance import append_line

MINILM = ProductProgram("MiniLM", "minilm")
CHUNK = 512  # texts that are encoded together
ROW = 384 * 4  # bytes of a vector
Told = Callable[[str], None]


@dataclass(frozen=True)
class MinilmVectors:
    """A folder with vectors.bin, a row for each text, and rows.jsonl, a line for each chunk and each start."""

    folder: Path

    @classmethod
    def under(cls, work: Path) -> MinilmVectors:
        """Return the folder for the cores that this process may use, because times depend on them."""
        return cls(work / f"minilm-{cores()}")

    def complete(self, texts: Iterable[str], queries: Iterable[str], environments: Path, told: Told) -> None:
        """Encode what is missing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        known = {digest for line in self._lines() for digest in line.get("digests", ())}
        self._cut(len(known))
        chunks = [*_chunks(texts, CHUNK, known), *_chunks(queries, 1, known)]
        if not chunks:
            return
        python, log = python_of(MINILM, environments), self.folder / "model.log"
        with ProductProcess(MINILM, python, self.folder, log, {}) as model:
            seconds, versions = model.timed("load")
            about = {"load_seconds": seconds, "versions": versions, "core_share": core_share()}
            append_line(self.folder / "rows.jsonl", about)
            for at, chunk in enumerate(chunks):
                if len(chunk) > 1 or at % CHUNK == 0:
                    told(f"MiniLM: {at:,} of {len(chunks):,} chunks are encoded")
                self._encode(model, chunk)

    def costs(self) -> MinilmCosts:
        """Return what the vectors cost."""
        return MinilmCosts(tuple(self._lines()))

    def _encode(self, model: ProductProcess, chunk: Sequence[str]) -> None:
        """Append the vectors, and then the line that says so."""
        part = self.folder / "part.bin"
        seconds, _ = model.timed("encode", texts=chunk, to=str(part))
        with (self.folder / "vectors.bin").open("ab") as file:
            file.write(part.read_bytes())
        digests = [text_digest(text) for text in chunk]
        line = {"seconds": seconds, "peak_bytes": model.memory.bytes, "digests": digests}
        append_line(self.folder / "rows.jsonl", line)

    def _lines(self) -> Iterator[dict[str, Any]]:
        path = self.folder / "rows.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
        return (json.loads(line) for line in lines if line.endswith("\n"))

    def _cut(self, rows: int) -> None:
        """Remove vectors and the part of a line that an interrupted run left behind its last complete line."""
        kept = "".join(json.dumps(line) + "\n" for line in self._lines())
        (self.folder / "rows.jsonl").write_text(kept, encoding="utf-8")
        vectors = self.folder / "vectors.bin"
        vectors.touch()
        os.truncate(vectors, rows * ROW)


@dataclass(frozen=True)
class MinilmCosts:
    """What the vectors cost, from the lines of rows.jsonl."""

    lines: Sequence[dict[str, Any]]

    def seconds(self, texts: Iterable[str]) -> float:
        """Return the seconds that encoding texts took, and loading the model once."""
        return self.load_seconds + sum(self._shares[text_digest(text)] for text in texts)

    def query_seconds(self, query: str) -> float:
        """Return the seconds that encoding a query took."""
        return self._shares[text_digest(query)]

    @property
    def load_seconds(self) -> float:
        """The seconds until the model was loaded, when it was started last."""
        return float([line["load_seconds"] for line in self.lines if "load_seconds" in line][-1])

    @property
    def peak_bytes(self) -> int:
        """The most memory that encoding took."""
        return max(int(line.get("peak_bytes", 0)) for line in self.lines)

    @property
    def core_share(self) -> float:
        """The smallest share of a core that was to be had when the model was started."""
        return min(float(line["core_share"]) for line in self.lines if "core_share" in line)

    @property
    def versions(self) -> dict[str, str]:
        """The versions of the last start."""
        found: dict[str, str] = [line["versions"] for line in self.lines if "versions" in line][-1]
        return found

    @cached_property
    def _shares(self) -> dict[str, float]:
        return {
            digest: line["seconds"] / len(line["digests"])
            for line in self.lines
            if "digests" in line
            for digest in line["digests"]
        }


def text_digest(text: str) -> str:
    """Return what the vector of a text is looked up by."""
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _chunks(texts: Iterable[str], size: int, known: set[str]) -> Iterator[list[str]]:
    """Yield the texts that are not known, each once, and add them to those that are."""
    missing = []
    for text in texts:
        digest = text_digest(text)
        if digest not in known:
            known.add(digest)
            missing.append(text)
    return ([*missing[start : start + size]] for start in range(0, len(missing), size))
