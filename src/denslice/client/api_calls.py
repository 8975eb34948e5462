"""The requests of the HTTP API as values: what is sent, and how the answer is read. Nothing is sent from here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import quote, urlencode

from denslice.client.served_info import ServedInfo
from denslice.errors import InputError
from denslice.records import Doc, Place, checked_id, given_id
from denslice.scalars import whole_number

Result = TypeVar("Result")


@dataclass(frozen=True)
class ApiCall(Generic[Result]):
    """One request, and the function that reads the JSON of its answer.

    Every request may be sent again. Searches change nothing; a document that is added replaces the one with its id, and
    one that is deleted is gone. So a second time leaves the same documents as the first.
    """

    method: str
    path: str
    read: Callable[[Any], Result]
    content: bytes | None = None
    is_write: bool = False
    if_absent: Callable[[], Result] | None = None  # makes the result if there is no such document; without it, an error


class Sender(Protocol):
    """What sends a request and returns its result, or raises a DensliceError."""

    def __call__(self, call: ApiCall[Result], /) -> Result:
        """Return the result."""


def post(path: str, body: object, read: Callable[[Any], Result], what: str = "the query") -> ApiCall[Result]:
    """Return a request with a JSON body. An error about its text calls it `what`."""
    return ApiCall("POST", path, read, json_bytes(body, what))


def document_call(id: str) -> ApiCall[Doc | None]:
    """Return the request for a document."""
    return ApiCall("GET", document_path(id), _doc, if_absent=lambda: None)


def places_call(id: str) -> ApiCall[list[Place] | None]:
    """Return the request for the places of a document's passages."""
    return ApiCall("GET", document_path(id), _places, if_absent=lambda: None)


def suggest_call(text: str, k: int) -> ApiCall[list[str]]:
    """Return the request for completions of a text."""
    if not isinstance(text, str):
        raise InputError(f"suggest completes a text, not {type(text).__name__}")
    asked = urlencode({"text": text, "k": whole_number("k", k, 1)}, errors="replace")
    return ApiCall("GET", f"/suggest?{asked}", lambda answer: list(map(str, answer["suggestions"])))


def info_call() -> ApiCall[ServedInfo]:
    """Return the request for the description of the index and of the server."""
    return ApiCall("GET", "/index", ServedInfo.of)


def document_path(id: str) -> str:
    """Return the path of a document. All of the id is one segment of it."""
    segment = quote(id, safe="", errors="replace")
    return "/documents/" + (segment.replace(".", "%2E") if segment in (".", "..") else segment)


def findable(id: object) -> str | None:
    """Return the id that a caller gives, or None if no document can have it, such as an empty one."""
    given = given_id(id)
    try:
        return checked_id(given)
    except InputError:
        return None


def json_bytes(value: object, what: str) -> bytes:
    """Return the value as the JSON of a body; raise InputError if a text in it is not valid Unicode."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise InputError(f"{what} holds half of a surrogate pair, which is not text") from None


def _doc(answer: Any) -> Doc:
    return Doc(answer["id"], answer["text"], answer["title"], answer["meta"])


def _places(answer: Any) -> list[Place]:
    return [Place(**one) for one in answer["passages"]]
