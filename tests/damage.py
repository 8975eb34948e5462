"""Damages an index file by file and tries what a user would do: it works, or it is a DensliceError, never a crash.

`python tests/damage.py --flips 5000` flips random bytes; tests/test_corruption.py goes through every file.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from denslice import DensliceError, Index
from denslice.search.cpu import two_stage
from denslice.store import manifest as manifests
from denslice.store.folder import Folder
from denslice.store.snapshot import file_names
from denslice.vectors import Floats
from forked import FAILED, Child

QUERIES = ("w1 w2 w300", "w7", "rare3 w5 w6 w8", "nothing")
SMALL = two_stage.SMALL_INDEX
EXPLAINED = ("a3", "b5")
VOCAB, DIMENSIONS = 60, 8
WRONG = "wrong answers"
ROOM = 2 << 30  # bytes: a damaged number must not ask for the whole machine


@dataclass(frozen=True)
class Damage:
    """What happens to one file: a byte changed (`at`, `bits` to flip), the file cut to `size`, or removed."""

    file: str
    at: int | None = None
    bits: int = 0
    size: int | None = None

    def apply(self, index: Path) -> None:
        """Puts a damaged file in the place of the sound one, whose bytes stay as they are under other names."""
        path = index / self.file
        data = bytearray(path.read_bytes())
        path.unlink()
        if self.at is not None:
            data[self.at] ^= self.bits
            path.write_bytes(data)
        elif self.size is not None:
            path.write_bytes(data[: self.size])


def build_texts(folder: Path) -> Path:
    """An index of texts: three segments, deletions, two pieces of vocabulary, learned slicing, filterable fields."""
    rng = random.Random(5)
    index = Index.create(folder, "bm25", slices=16, slicing="learned", query="sliced", filterable=["year"])
    index.add(_docs("a", 120, lambda i: " ".join(f"w{rng.randrange(400)}" for _ in range(20))))
    index.add(_docs("b", 30, lambda i: f"rare{i % 10} " + " ".join(f"w{rng.randrange(9)}" for _ in range(9))))
    index.delete([f"a{i}" for i in range(10, 30)])
    index.add(_docs("a", 3, lambda i: f"w{i} replaced"))
    index.delete(["b1"])
    return folder


def build_vectors(folder: Path) -> Path:
    """An index of ready vectors, lexical and dense: three segments, deletions, learned slicing."""
    index = Index.create(folder, "vectors", vocab=VOCAB, slices=16, slicing="learned")
    for name, count in (("a", 120), ("b", 30), ("c", 5)):
        index.add_vectors([f"{name}{i}" for i in range(count)], *_vectors(count, name))
    index.delete([*(f"a{i}" for i in range(10, 30)), "b1"])
    return folder


KINDS = {"texts": build_texts, "vectors": build_vectors}


def _vectors(count: int, seed: str) -> tuple[sp.csr_array, list[str], Floats]:
    """Lexical vectors, texts and dense vectors."""
    rng = np.random.default_rng([ord(letter) for letter in seed])
    weights = rng.exponential(1.0, (count, VOCAB)) * (rng.random((count, VOCAB)) < 0.2)
    texts = [f"text {seed}{i}" for i in range(count)]
    return sp.csr_array(weights.astype(np.float32)), texts, rng.normal(size=(count, DIMENSIONS)).astype(np.float32)


def _docs(prefix: str, count: int, text: Callable[[int], str]) -> Iterator[dict[str, Any]]:
    for i in range(count):
        yield {"id": f"{prefix}{i}", "text": text(i), "title": f"title {i}", "year": 2000 + i % 5, "tags": ["x", i]}


def files(index: Path) -> list[str]:
    """Every file the manifest names."""
    return sorted(file_names(manifests.read(Folder(index))))


def answers(index: Index) -> list[Any]:
    """All that a reader can ask of the index."""
    told: list[Any] = [index.info().to_dict() | {"path": "", "generation": 0}]
    for two_stage.SMALL_INDEX in (0, SMALL):  # by compiled loops, and in numpy
        told += vector_answers(index) if index.info()["encoder"] == "vectors" else text_answers(index)
    told += [index.get(id) for id in ("a1", "a11", "b29", "nobody")]
    return [*told, [str(doc) for doc in index.docs()]]


def text_answers(index: Index) -> list[Any]:
    """What queries of words find."""
    told: list[Any] = []
    told += [[(hit.id, hit.score, hit.text, hit.meta) for hit in index.search(query, 200)] for query in QUERIES]
    told += [list(index.search("w1 w2", 50, where=where).ids) for where in ({"year": {"gte": 2003}}, {"tags": "x"})]
    told += [list(ranking.ids) for ranking in index.search_batch(QUERIES, 5, theta=1.0, candidates=10)]
    return told + [index.explain("w1 w2 w3 rare5", id) for id in EXPLAINED]


def vector_answers(index: Index) -> list[Any]:
    """What queries of lexical and dense vectors find."""
    weights, _, dense = _vectors(2, "q")
    told: list[Any] = []
    for row, mode in product(range(2), ("lexical", "dense", "hybrid")):
        ranking = index.search_vectors(weights[row : row + 1], dense=dense[row], k=200, mode=mode)
        told.append([(hit.id, hit.score, hit.text) for hit in ranking])
    return told + [index.explain_vectors(weights[:1], id, dense=dense[0]) for id in EXPLAINED]


def read(path: Path) -> list[Any]:
    """Opens the index and asks it everything."""
    return answers(Index.open(path))


def merge(path: Path) -> list[Any]:
    """Merges the index; if what is left passes `verify`, its answers."""
    Index.open(path).merge()
    return _verified(path)


def add(path: Path) -> list[Any]:
    """Adds, replaces and deletes; if what is left passes `verify`, its answers."""
    index = Index.open(path)
    if index.info()["encoder"] == "vectors":
        index.add_vectors(["a1", *(f"d{i}" for i in range(40))], *_vectors(41, "d"))
    else:
        index.add([{"id": "a1", "text": "w1 w2 w3"}, *({"id": f"c{i}", "text": f"w{i} fresh{i}"} for i in range(40))])
    index.delete(["a7", "b2"])
    return _verified(path)


def _verified(path: Path) -> list[Any]:
    index = Index.open(path)
    index.verify()
    return answers(index)


USES: dict[str, Callable[[Path], list[Any]]] = {"read": read, "merge": merge, "add": add}


def each_damage(index: Path) -> Iterator[Damage]:
    """Every file cut by a byte, emptied, removed, and flipped at its start, middle, end and in between."""
    rng = random.Random(3)
    for file in files(index):
        size = (index / file).stat().st_size
        yield from (Damage(file, size=kept) for kept in (size - 1, 0))
        yield Damage(file)
        yield from (Damage(file, at, 0xFF) for at in (0, size // 2, size - 1))
        places = [7, 8, rng.randrange(20, 80), size * 3 // 4, rng.randrange(size)]
        yield from (Damage(file, min(at, size - 1), 1 << rng.randrange(8)) for at in places)


def random_flips(index: Path, count: int, seed: int) -> Iterator[Damage]:
    """One bit or one byte of a random file."""
    rng = random.Random(seed)
    names = files(index)
    for _ in range(count):
        file = rng.choice(names)
        size = (index / file).stat().st_size
        at = rng.randrange(min(size, 128)) if rng.random() < 0.3 else rng.randrange(size)
        yield Damage(file, at, rng.choice([0xFF, rng.randrange(1, 256), 1 << rng.randrange(8)]))


def try_damages(index: Path, damages: Iterable[Damage], use: str) -> Iterator[tuple[Damage, str]]:
    """Each damage with what came of it: "works", "wrong answers", "DensliceError …" or "FAILED …".

    Wrong answers are no failure of a reader that did not call `verify`.
    """
    with tempfile.TemporaryDirectory(dir=index.parent) as scratch:
        copy = Path(scratch) / "copy"
        shutil.copytree(index, copy)
        truth = USES[use](copy)  # and now everything is imported and compiled, before the forks
        for damage in damages:
            shutil.rmtree(copy)
            shutil.copytree(index, copy, copy_function=os.link)  # files of an index are never changed in place
            damage.apply(copy)
            yield damage, Child(lambda: _tried(copy, use, truth), room=ROOM).result()


def _tried(path: Path, use: str, truth: list[Any]) -> str:
    try:
        return "works" if USES[use](path) == truth else WRONG
    except DensliceError as error:
        return f"{type(error).__name__} {error}"


def main() -> int:
    """Flips random bytes; prints and counts what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flips", type=int, default=0, help="random flips; otherwise every file in turn")
    parser.add_argument("--every", type=int, default=1, help="3: every third of the damages to every file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--use", choices=USES, default="read")
    parser.add_argument("--kind", choices=KINDS, default="texts")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        index = KINDS[given.kind](Path(folder) / "index")
        damages = random_flips(index, given.flips, given.seed) if given.flips else each_damage(index)
        damages = islice(damages, 0, None, given.every)
        tried = list(try_damages(index, damages, given.use))
    bad = (FAILED,) if given.use == "read" else (FAILED, WRONG)
    failed = [(damage, told) for damage, told in tried if told.startswith(bad)]
    counts = {word: sum(told.startswith(word) for _, told in tried) for word in ("works", WRONG, "IndexFormatError")}
    sys.stdout.writelines(f"{damage}\n{told}\n" for damage, told in failed)
    sys.stdout.write(f"{given.kind}, {given.use}: {len(tried)} damages, {len(failed)} failed; {counts}\n")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
