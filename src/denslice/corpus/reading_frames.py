"""The messages between the process that indexes files and those that read them: JSON, with a mark and its length first.

They are not pickled: unpickling what a process sends that a hostile file has taken over would run its code.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from struct import Struct
from typing import IO, Any

from denslice.corpus.formats.source_file import Problem
from denslice.records import Doc, Place

HEADER = Struct(">BQ")  # mark, length in bytes
MORE, DONE, LAST = range(3)  # marks: more frames of this file follow; none does; none does and the process ends
FoundPassages = tuple[Doc, list[Place]]


def request_frame(request: object) -> bytes:
    """Return a message to a reader as a frame; names of files that are not Unicode arrive as they are."""
    return framed(json.dumps(request).encode())


def answer_payload(rows: Sequence[str], problems: Sequence[Problem], remarks: Sequence[str]) -> bytes:
    """Return an answer as JSON. Halves of surrogate pairs become question marks, since an index cannot store them."""
    rest = json.dumps({"problems": problems, "remarks": remarks}, ensure_ascii=False)
    return f'{{"docs": [{",".join(rows)}], {rest[1:]}'.encode("utf-8", "replace")


def doc_row(doc: Doc, places: Sequence[Place]) -> str:
    """Return a document and its passages as JSON."""
    fields = [doc.id, doc.text, doc.title, dict(doc.meta), doc.vector, places]
    return json.dumps(fields, ensure_ascii=False)


def answer_parts(payload: bytes) -> tuple[list[FoundPassages], list[Problem], list[str]]:
    """Return the documents with their passages, the problems and the remarks of an answer."""
    answer = json.loads(payload)
    docs = [(Doc(*fields), [Place(*place) for place in places]) for *fields, places in answer["docs"]]
    return docs, [Problem(*problem) for problem in answer["problems"]], list(answer["remarks"])


def framed(payload: bytes, mark: int = DONE) -> bytes:
    """Return a frame of one payload."""
    return HEADER.pack(mark, len(payload)) + payload


def read_request(stream: IO[bytes]) -> Any:
    """Return the next message of a stream, or None at its end."""
    header = stream.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    _, length = HEADER.unpack(header)
    payload = stream.read(length)
    return json.loads(payload) if len(payload) == length else None
