"""What a server is started with: who may ask it, and how much it takes on."""

from __future__ import annotations

import ipaddress
import math
import socket
from dataclasses import dataclass, fields
from functools import cached_property

from denslice.errors import InputError

SHORTEST_KEY = 16  # characters


@dataclass(frozen=True)
class Limits:
    """How much is taken on before a request is refused; seconds for times, bytes for bodies."""

    max_body: int = 1 << 20
    max_write_body: int = 32 << 20
    max_query_length: int = 2_000  # characters
    max_queries: int = 64  # in one request
    max_k: int = 1_000
    max_candidates: int = 100_000
    max_text: int = 10_000  # characters of a title or a text in the answer to a search
    max_explained: int = 100  # documents explained in one request
    max_conditions: int = 200  # in a filter, each item of a list counted
    max_documents: int = 1_000  # written or deleted in one request
    max_waiting: int = 512  # queries that wait for their turn
    max_batch: int = 16  # queries searched together
    max_writes: int = 8  # that wait for their turn
    max_connections: int = 1_000
    timeout: float = 10.0  # for a search, waiting included
    header_timeout: float = 10.0  # for a client to send a request's head
    body_timeout: float = 20.0  # for a client to send a request's body
    send_timeout: float = 30.0  # for a client to take an answer
    refresh_seconds: float = 1.0  # between looks for new commits

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"{field.name} must be above 0, not {value!r}")
        if self.max_queries > self.max_waiting:
            raise InputError(f"max_queries ({self.max_queries}) must not exceed max_waiting ({self.max_waiting})")


@dataclass(frozen=True)
class Access:
    """Who may do what. A key that is given is asked of everyone, with `open` only of writers; writing always takes it.

    Without a key, only loopback or `open` lets anyone read.
    """

    host: str = "127.0.0.1"
    api_key: str | None = None
    open: bool = False
    writable: bool = False
    hosts: tuple[str, ...] = ()  # names a proxy in front may use for this server

    def __post_init__(self) -> None:
        if self.api_key is not None and (len(self.api_key) < SHORTEST_KEY or not self.api_key.isascii()):
            raise InputError(f"the API key must have {SHORTEST_KEY} ASCII characters or more")
        if self.writable and self.api_key is None:
            raise InputError("--writable needs an API key: give --api-key, or DENSLICE_API_KEY in the environment")
        if not (self.loopback or self.api_key or self.open):
            told = "give --api-key, or --open if everyone who can reach it may read"
            raise InputError(f"{self.host} can be reached from other machines: {told}")

    @cached_property
    def loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return all(ipaddress.ip_address(address).is_loopback for address in addresses(self.host))

    @property
    def key_for_reads(self) -> bool:
        """Whether reading takes the key too."""
        return self.api_key is not None and not self.open

    @property
    def allowed_hosts(self) -> frozenset[str]:
        """The names a request may call this server by; empty where any will do.

        On loopback a page from elsewhere whose name was made to point here must not read the answers.
        """
        if not self.loopback:
            return frozenset()
        return frozenset({"localhost", "127.0.0.1", "::1", self.host.lower(), *(name.lower() for name in self.hosts)})


def addresses(host: str) -> list[str]:
    """The addresses a name stands for."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise InputError(f"--host {host!r} is no address or name of this machine") from None
    return [str(address[0]).partition("%")[0] for *_, address in found]
