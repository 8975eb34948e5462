"""The options of a server: its limits, and which clients may read and write."""

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
    """Limits of requests, connections and the queue. Times are in seconds, bodies in bytes."""

    max_body: int = 1 << 20
    max_write_body: int = 32 << 20
    max_query_length: int = 2_000  # characters
    max_queries: int = 64  # in one request
    max_k: int = 1_000
    max_offset: int = 100_000  # hits that are skipped
    max_candidates: int = 100_000
    max_text: int = 10_000  # characters of a title, text or passage in a search response
    max_explained: int = 100  # documents explained in one request
    max_conditions: int = 200  # in a filter; each item of a list counts
    max_documents: int = 1_000  # added or deleted in one request
    max_waiting: int = 512  # queries in the queue
    max_batch: int = 16  # queries searched together
    max_writes: int = 8  # running or waiting
    max_connections: int = 1_000
    timeout: float = 10.0  # for a search, with its time in the queue
    header_timeout: float = 10.0  # for a client to send the headers
    body_timeout: float = 20.0  # for a client to send the body
    send_timeout: float = 30.0  # for a client to receive a response
    refresh_seconds: float = 1.0  # between checks for new commits

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"{field.name} must be above 0, not {value!r}")
        if self.max_queries > self.max_waiting:
            raise InputError(f"max_queries ({self.max_queries}) must not exceed max_waiting ({self.max_waiting})")


@dataclass(frozen=True)
class Access:
    """Which clients may read and write. If there is a key, writing needs it, and so does reading unless `open` is set.

    Without a key, the server must listen on loopback or be `open`.
    """

    host: str = "127.0.0.1"
    api_key: str | None = None
    open: bool = False
    writable: bool = False
    hosts: tuple[str, ...] = ()  # further names in the Host header, for a reverse proxy

    def __post_init__(self) -> None:
        if self.api_key is not None and (len(self.api_key) < SHORTEST_KEY or not self.api_key.isascii()):
            raise InputError(f"the API key must have at least {SHORTEST_KEY} ASCII characters")
        if self.writable and self.api_key is None:
            raise InputError("--writable needs an API key: give --api-key, or DENSLICE_API_KEY in the environment")
        if not (self.loopback or self.api_key or self.open):
            advice = "give --api-key, or --open if every client that can reach it may read"
            raise InputError(f"{self.host} can be reached from other machines: {advice}")

    @cached_property
    def loopback(self) -> bool:
        """Whether only clients on this machine can reach the server."""
        return all(ipaddress.ip_address(address).is_loopback for address in addresses(self.host))

    @property
    def key_for_reads(self) -> bool:
        """Whether reading needs the key too."""
        return self.api_key is not None and not self.open

    @property
    def allowed_hosts(self) -> frozenset[str]:
        """The names that a Host header may hold; empty if any is accepted.

        On loopback, this protects against DNS rebinding: a web page whose name resolves to this machine.
        """
        if not self.loopback:
            return frozenset()
        return frozenset({"localhost", "127.0.0.1", "::1", self.host.lower(), *(name.lower() for name in self.hosts)})


def addresses(host: str) -> list[str]:
    """Return the IP addresses of a host name."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise InputError(f"--host {host!r} is not an address or name of this machine") from None
    return [str(address[0]).partition("%")[0] for *_, address in found]
