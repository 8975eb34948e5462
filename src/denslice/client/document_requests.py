"""Documents in requests of bounded size, read one after the other, and the count of what was written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from denslice.client.api_calls import ApiCall, json_bytes
from denslice.client.served_info import ServedInfo
from denslice.errors import DensliceError, InputError, PartialWriteError
from denslice.records import Doc, GivenDocs, Progress, checked_docs, checked_ids

USUAL_BYTES = 4 << 20  # of documents in a request, unless one alone is larger
ENVELOPE = 100  # bytes that a body may have beside its documents


def add_calls(docs: GivenDocs, level: str, server: ServedInfo) -> Iterator[ApiCall[int]]:
    """Yield requests that add the documents. Only the documents of one request are in memory."""
    most_docs, most_bytes = server.most("max_documents"), server.most("max_write_body") - ENVELOPE
    some: list[bytes] = []
    size = 0
    for at, doc in enumerate(checked_docs(docs)):
        body = _doc_bytes(doc, at, most_bytes)
        if some and (len(some) == most_docs or size + len(body) > min(USUAL_BYTES, most_bytes)):
            yield _add_call(some, level)
            some, size = [], 0
        some.append(body)
        size += len(body) + 1
    if some:
        yield _add_call(some, level)


def delete_calls(ids: Iterable[str], server: ServedInfo) -> Iterator[ApiCall[int]]:
    """Yield requests that delete the documents with these ids."""
    checked, most = checked_ids(ids), server.most("max_documents")
    for start in range(0, len(checked), most):
        content = json_bytes({"ids": checked[start : start + most]}, "an id")
        yield ApiCall("DELETE", "/documents", _count, content, is_write=True)


class WriteTally:
    """Counts the documents of a write of several requests, and tells in an error how many were written before."""

    def __init__(self, progress: Progress | None = None) -> None:
        self._progress = progress
        self.documents = 0

    def add(self, count: int) -> None:
        """Count the documents of a request that succeeded."""
        self.documents += count
        if self._progress:
            self._progress(count)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None or not self.documents:
            return
        if isinstance(error, DensliceError):
            raise PartialWriteError(self.documents, str(error)) from error
        error.add_note(f"{self.documents:,} documents had been written before")


def _doc_bytes(doc: Doc, at: int, most: int) -> bytes:
    named = f"document {at} (id {doc.id!r})"
    body = json_bytes(doc.to_dict(), named)
    if len(body) > most:
        advice = "cut it into several documents, or raise the server's limit max_write_body"
        raise InputError(f"{named} has {len(body):,} bytes, and the server takes {most:,}; {advice}")
    return body


def _add_call(docs: Sequence[bytes], level: str) -> ApiCall[int]:
    content = b'{"level":%s,"documents":[%s]}' % (json_bytes(level, "the level"), b",".join(docs))
    return ApiCall("POST", "/documents", _count, content, is_write=True)


def _count(answer: Any) -> int:
    return int(answer["documents"])
