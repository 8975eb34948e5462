"""Index: an encoder, a folder on disk and search, joined behind a few verbs."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from denslice import encoders
from denslice.build import Build, Progress
from denslice.errors import DensliceError, InputError
from denslice.records import Doc, Explanation, Query, Ranking, given_id
from denslice.scalars import whole_number
from denslice.search.gpu.search import Cards
from denslice.search.retrieve import Settings
from denslice.slicing import KINDS
from denslice.store import lock, snapshot
from denslice.store import manifest as manifests
from denslice.store.manifest import Manifest, SlicingEntry
from denslice.store.snapshot import Snapshot
from denslice.vectors import dense_rows, is_sparse, lexical_csr
from denslice.view import View, Where

if TYPE_CHECKING:
    import scipy.sparse as sp

QUERIES = ("full", "sliced")
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


class Index:
    """A searchable collection in a folder. It shows the commit it was opened at, and its own later ones."""

    def __init__(self, view: View) -> None:
        self._view = view

    @classmethod
    def create(
        cls,
        path: str | Path,
        encoder: str = "mini",
        *,
        slices: int = 768,
        slicing: str = "learned",
        query: str = "full",
        vocab: int | None = None,
        skip: int | None = None,
        seed: int = 0,
        filterable: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
    ) -> Index:
        """A new, empty index in a folder that does not exist yet.

        `encoder` is "mini" (the model in the package), "bm25", "vectors", or a model's folder or hub id. `query` is
        "full" (every query token meets the sliced documents) or "sliced" (the paper). `vocab` is the number of columns
        of ready vectors; `skip` leaves the first tokens out of the slicing, None meaning what suits the encoder;
        filters on `filterable` metadata fields are fast, on others slower; `options` are the encoder's settings.
        """
        if slicing not in KINDS:
            raise InputError(f"unknown slicing {slicing!r}; known: {', '.join(KINDS)}")
        if query not in QUERIES:
            raise InputError(f"query is {query!r}, expected one of {', '.join(QUERIES)}")
        slices, seed = whole_number("slices", slices, 1), whole_number("seed", seed, 0)
        skip = None if skip is None else whole_number("skip", skip, 0)
        _check_fields(filterable)
        given = dict(options or {}) | ({} if vocab is None else {"vocab": vocab})
        settings = encoders.checked_options(encoder, given)
        skipped = settings.get("skip", 0) if skip is None else skip
        if not 0 <= skipped <= (settings.get("vocab") or skipped):
            raise InputError(f"skip must lie between 0 and the vocabulary's size, not {skip!r}")
        places = SlicingEntry(slicing, slices, skipped, seed)
        manifest = Manifest(encoder, settings, places, query, tuple(filterable))
        snapshot.create(Path(path), manifest)
        return cls.open(path)

    @classmethod
    def open(
        cls,
        path: str | Path,
        device: str = "cpu",
        *,
        leave_out: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> Self:
        """The index in a folder, at its last commit.

        On device "cuda", or "cuda:0,1" for several cards, searches run there with the same results. What `leave_out`
        names stays off the card: "rows" (then exact scores take longer), "dense" (then only words are searched).
        """
        if device == "cpu":
            return cls(View(Path(path)))
        return cls(View(Path(path), Cards.named(device, leave_out), progress))

    @property
    def path(self) -> Path:
        """The index's folder."""
        return self._view.snapshot.folder

    @property
    def generation(self) -> int:
        """The number of the commit that is shown."""
        return self._view.generation

    @property
    def lam(self) -> float:
        """λ, the weight of the dense score, where a search gives none: the encoder's own."""
        return self._view.encoder.lam

    def __len__(self) -> int:
        return self._view.statistics.docs

    def add(
        self, docs: Iterable[Doc | Mapping[str, Any]], *, wait: float = 0.0, progress: Progress | None = None
    ) -> int:
        """Adds documents in one commit; how many. A document takes the place of an older one with the same id.

        On any error the index stays as it was. If another process is writing, waits up to `wait` seconds.
        """
        return self._commit(lambda build: build.add_docs(docs), wait, progress)

    def add_vectors(
        self,
        ids: Sequence[str],
        weights: sp.csr_array,
        texts: Sequence[str] | None = None,
        dense: npt.ArrayLike | None = None,
        *,
        wait: float = 0.0,
        progress: Progress | None = None,
    ) -> int:
        """Adds ready vectors, rows of a (documents, vocab) matrix and dense ones beside it, in one commit; how many."""
        checked = lexical_csr(weights, self._view.columns())
        vectors = None if dense is None else dense_rows(dense, checked.shape[0])
        return self._commit(lambda build: build.add_vectors(ids, checked, texts, vectors), wait, progress)

    def delete(self, ids: Iterable[str], *, wait: float = 0.0) -> int:
        """Deletes the documents with these ids in one commit; how many there were."""
        return self._commit(lambda build: build.delete(ids), wait)

    def merge(self, *, wait: float = 0.0) -> int:
        """Rewrites segments that are small or much deleted as few full ones; how many were rewritten.

        Results stay the same. Interrupted, it leaves the index as it was.
        """
        return self._commit(Build.merge, wait)

    def refresh(self) -> bool:
        """Moves on to the last commit, of whichever process; whether there was a newer one."""
        newer = Snapshot(self.path).manifest.generation != self._view.generation
        if newer:
            self._view = View(self.path, self._view.cards)
        return newer

    def search(
        self,
        text: str,
        k: int = 10,
        *,
        theta: float = 0.0,
        candidates: int = 10_000,
        lam: float | None = None,
        mode: str | None = None,
        candidates_from: str = "both",
        caution: float = 1.0,
        where: Where = None,
    ) -> Ranking:
        """The k best documents for a text, best first, equal scores by id; of those that pass `where`, if given.

        `mode` is "lexical", "dense" or "hybrid", the last being the default where there are dense vectors; `lam`
        weighs the dense score, as the encoder does if left out. Both sides choose candidates, and nothing is missed;
        `candidates_from="lexical"` adds the dense score only to what the lexical side found, as in the paper.
        `caution` below 1 makes a search by words faster and no longer sure: stage one leaves out weights that add
        little, and the best of what it then finds are scored in full.
        """
        settings = Settings(k, theta, candidates, mode, lam, candidates_from, caution=caution)
        return next(self._view.rank([Query("", text)], settings, where))

    def search_batch(
        self,
        texts: Sequence[str],
        k: int = 10,
        *,
        theta: float = 0.0,
        candidates: int = 10_000,
        lam: float | None = None,
        mode: str | None = None,
        candidates_from: str = "both",
        caution: float = 1.0,
        where: Where = None,
    ) -> list[Ranking]:
        """The k best documents for each text, on all cores."""
        if isinstance(texts, str) or not isinstance(texts, Iterable):
            raise InputError(f"search_batch takes a list of texts, not {type(texts).__name__}; search takes one text")
        settings = Settings(k, theta, candidates, mode, lam, candidates_from, caution=caution)
        return list(self._view.rank([Query("", text) for text in texts], settings, where))

    def search_vectors(
        self,
        weights: sp.csr_array,
        *,
        dense: npt.ArrayLike | None = None,
        k: int = 10,
        theta: float = 0.0,
        candidates: int = 10_000,
        lam: float | None = None,
        mode: str | None = None,
        candidates_from: str = "both",
        caution: float = 1.0,
        where: Where = None,
    ) -> Ranking:
        """The k best documents for a ready query vector, one row of weights, and its dense vector."""
        settings = Settings(k, theta, candidates, mode, lam, candidates_from, caution=caution)
        return self._view.rank_ready(self._view.ready_one(weights, dense), settings, where)[0]

    def search_vectors_batch(
        self,
        weights: sp.csr_array,
        *,
        dense: npt.ArrayLike | None = None,
        k: int = 10,
        theta: float = 0.0,
        candidates: int = 10_000,
        lam: float | None = None,
        mode: str | None = None,
        candidates_from: str = "both",
        caution: float = 1.0,
        where: Where = None,
    ) -> list[Ranking]:
        """The k best documents for each ready query vector: rows of (queries, vocab), and dense ones beside them."""
        settings = Settings(k, theta, candidates, mode, lam, candidates_from, caution=caution)
        return self._view.rank_ready(self._view.ready(weights, dense), settings, where)

    def rank(
        self,
        queries: Iterable[Query],
        k: int = 1000,
        *,
        theta: float = 0.0,
        candidates: int = 10_000,
        lam: float | None = None,
        mode: str | None = None,
        candidates_from: str = "both",
        caution: float = 1.0,
        where: Where = None,
    ) -> Iterator[Ranking]:
        """The k best documents for each query, in the queries' order: a run."""
        if is_sparse(queries) or isinstance(queries, np.ndarray):
            raise InputError("rank takes a list of Query; search_vectors_batch takes a matrix of ready vectors")
        if isinstance(queries, str | Query | Mapping) or not isinstance(queries, Iterable):
            raise InputError(f"rank takes a list of Query, not {type(queries).__name__}")
        return self._view.rank(
            queries, Settings(k, theta, candidates, mode, lam, candidates_from, caution=caution), where
        )

    def explain(
        self, text: str | Query, id: str | int, *, lam: float | None = None, mode: str | None = None
    ) -> Explanation:
        """Why the document with this id scores what it does for a text."""
        view, query = self._view, text if isinstance(text, Query) else Query("", text)
        return view.explain(view.encode_again(query), given_id(id), Settings(1, mode=mode, lam=lam))

    def explain_vectors(
        self,
        weights: sp.csr_array,
        id: str | int,
        *,
        dense: npt.ArrayLike | None = None,
        lam: float | None = None,
        mode: str | None = None,
    ) -> Explanation:
        """Why the document with this id scores what it does for a ready query vector."""
        view = self._view
        return view.explain(view.ready_one(weights, dense), given_id(id), Settings(1, mode=mode, lam=lam))

    def docs(self) -> Iterator[Doc]:
        """Every document, in the order they were added, but for what merges moved."""
        return self._view.docs()

    def get(self, id: str | int) -> Doc | None:
        """The document with this id."""
        return self._view.get(given_id(id))

    def verify(self) -> None:
        """Reads every file in full; raises IndexFormatError naming the first that is damaged."""
        self._view.snapshot.verify()

    def info(self) -> dict[str, Any]:
        """What the index is: encoder, slicing, counts and sizes."""
        return self._view.info()

    def _commit(self, work: Callable[[Build], int], wait: float, progress: Progress | None = None) -> int:
        with lock.writing(self.path, wait):
            build = Build(Snapshot(self.path), progress)
            try:
                snapshot.sweep(self.path)
                done = work(build)
                manifest = build.finish()
            except BaseException as error:
                build.close()
                with suppress(OSError, DensliceError):
                    snapshot.sweep(self.path)
                if reason := _unwritable(error, self.path):
                    raise InputError(f"{self.path}: cannot be written ({reason})") from error
                raise
            if manifest is not build.snapshot.manifest:
                self._write(manifest)
            del build
            self._view = View(self.path, self._view.cards)
            with suppress(OSError):  # the commit stands; the next writer sweeps
                snapshot.sweep(self.path)
        return done

    def _write(self, manifest: Manifest) -> None:
        """Commits. From the rename on there is no way back: what an error leaves behind, the next writer sweeps."""
        try:
            manifests.write(self.path, manifest)
        except OSError as error:
            told = f"could not be committed ({error.strerror}); open it again to see whether it was"
            raise InputError(f"{self.path}: {told}") from error


def open_index(
    path: str | Path, device: str = "cpu", *, leave_out: Sequence[str] = (), progress: Progress | None = None
) -> Index:
    """The index in a folder, at its last commit, searched on the CPU or on cards: see `Index.open`."""
    return Index.open(path, device, leave_out=leave_out, progress=progress)


def _unwritable(error: BaseException, folder: Path) -> str:
    """Why the folder could not be written to, if that went wrong and not, say, the reading of documents."""
    if isinstance(error, sqlite3.OperationalError):
        return str(error)
    if not isinstance(error, OSError):
        return ""
    ours = error.errno in DISK_ERRORS or str(error.filename).startswith(str(folder))
    return error.strerror or str(error) if ours else ""


def _check_fields(filterable: Sequence[str]) -> None:
    if isinstance(filterable, str) or not all(isinstance(field, str) and field.isprintable() for field in filterable):
        raise InputError(f"filterable is {filterable!r}, expected a list of field names")
    if "" in filterable or len(set(filterable)) < len(filterable):
        raise InputError(f"filterable fields must be different and not empty: {', '.join(filterable)}")
