"""What comes back from a server: a result, an error of denslice, or a reason to send the request again."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from denslice.client.api_calls import ApiCall, Result
from denslice.errors import DensliceError, InputError, MissingShardsError, UnavailableError
from denslice.scalars import number, whole_number

FIRST_PAUSE = 0.2  # seconds before the second attempt; each further pause is twice as long
LONGEST_PAUSE = 30.0  # seconds; if a server asks for more, the caller is told instead
AGAIN = (429, 502, 503)
NO_SHARDS = "no answer from "  # how the message of a MissingShardsError begins


@dataclass(frozen=True)
class ServerAddress:
    """Where a server is, the key that it wants, and how patient its clients are."""

    url: str
    api_key: str | None = field(default=None, repr=False)
    timeout: float = 30.0
    retries: int = 3

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or not _is_web_address(self.url):
            raise InputError(f"{self.url!r} is not the address of a server, such as http://127.0.0.1:8000")
        if self.api_key is not None and not (self.api_key.isascii() and self.api_key.isprintable()):
            raise InputError("an API key has ASCII characters only, and no line breaks")
        number("timeout", self.timeout, 0, above=True)
        whole_number("retries", self.retries, 0)


@dataclass(frozen=True)
class Reply:
    """A response, or with status 0 the problem that no response came, and whether to try again."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    problem: str = ""
    is_passing: bool = False

    @property
    def says_again(self) -> bool:
        """Whether the same request may succeed a little later."""
        return self.status in AGAIN or self.is_passing

    @property
    def wait(self) -> float:
        """The seconds that the header Retry-After asks for, 0 without one."""
        asked = self.headers.get("retry-after", "")
        if asked.isdecimal():
            return float(asked)
        try:
            return max(0.0, (parsedate_to_datetime(asked) - datetime.now(UTC)).total_seconds())
        except (ValueError, TypeError):  # no date, or one without a time zone
            return 0.0


class Attempts:
    """The attempts at one request: how many are left, and the pauses between them."""

    def __init__(self, retries: int) -> None:
        self._left, self._pause = retries, FIRST_PAUSE

    def pause(self, reply: Reply) -> float | None:
        """Return how many seconds to wait before the next attempt, or None if there is to be none.

        A part of the pause is random, so that clients that were refused together do not come back together.
        """
        if not self._left or not reply.says_again or reply.wait > LONGEST_PAUSE:
            return None
        pause = max(reply.wait, self._pause * random.uniform(0.5, 1.0))
        self._left, self._pause = self._left - 1, 2 * self._pause
        return pause


def result_of(call: ApiCall[Result], reply: Reply, server: ServerAddress) -> Result:
    """Return the result of a request, or raise the error that the reply is."""
    if reply.status != 200:
        code, message = _refusal(reply)
        if call.if_absent is not None and code == "no_document":
            return call.if_absent()
        raise _error(reply, code, message, server)
    try:
        return call.read(json.loads(reply.body))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InputError(f"{server.url} is not a server of denslice of this version: {_seen(reply)}") from error


def _error(reply: Reply, code: str, message: str, server: ServerAddress) -> DensliceError:
    if code == "incomplete":
        return MissingShardsError(message.removeprefix(NO_SHARDS).split(", "))
    if reply.status == 401:
        wrong = "wants an API key; give api_key" if server.api_key is None else "does not accept this API key"
        return InputError(f"{server.url} {wrong}")
    if not reply.status or reply.status == 429 or reply.status >= 500:
        asked = f"; it asks to wait {reply.wait:g} s" if reply.wait > LONGEST_PAUSE else ""
        return UnavailableError(f"{server.url}: {message or reply.problem or _seen(reply)}{asked}")
    if code:
        return InputError(message)
    return InputError(f"{server.url} is not a server of denslice: {_seen(reply)}")


def _refusal(reply: Reply) -> tuple[str, str]:
    """Return code and message of an error response, both empty if it is not one of denslice."""
    try:
        error: Any = json.loads(reply.body)["error"]
        return str(error["code"]), str(error["message"])
    except (ValueError, LookupError, TypeError):
        return "", ""


def _seen(reply: Reply) -> str:
    """Return in a few words what came back."""
    if to := reply.headers.get("location"):
        return f"it redirects to {to}"
    return f"it answered {reply.status} with {reply.headers.get('content-type', 'no content type')}"


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
