"""The socket of a command that serves, and the address that it prints."""

from __future__ import annotations

import socket

from denslice.errors import InputError

BACKLOG = 2_048


def listening(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raise InputError with the address if that fails."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if not 0 <= port < 1 << 16:
        raise InputError(f"--port is {port}, expected a number from 0 to 65535")
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise InputError(f"cannot listen on {host}:{port} ({error.strerror})") from error


def address(host: str, listener: socket.socket) -> str:
    """Return the address that clients take, with the port that was free if none was chosen."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}"
