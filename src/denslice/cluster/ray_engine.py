"""Imports and connects Ray without its log output. Only this module knows whether Ray is installed."""

from __future__ import annotations

import logging
import os
import socket
from types import ModuleType
from typing import Any

from denslice.errors import InputError, MissingExtraError

RAY_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
}
CONNECT_TIMEOUT = 10.0  # seconds


def load() -> ModuleType:
    """Import and return ray. Raise MissingExtraError if it is not installed."""
    for name, value in RAY_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise MissingExtraError("a cluster", "ray") from error
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    return ray


def connect(address: str | None) -> bool:
    """Connect to the Ray cluster at the address. Return whether this was needed; then `leave` disconnects.

    The address is host:port, "auto" for the Ray cluster that runs here, or "local" for a new one that ends with this
    process. Without an address, this process must be connected already.
    """
    ray = load()
    if ray.is_initialized():
        return False
    if address is None:
        raise InputError('no address of a Ray cluster; give one, such as 10.0.0.1:6379 or "local"')
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        options["include_dashboard"] = False
    try:
        _check_reachable(address)
        ray.init(address, **options)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"no Ray cluster at {address} ({reason}); start one with `ray start --head`") from error
    return True


def _check_reachable(address: str) -> None:
    """Raise OSError if nothing listens at host:port. Ray itself would try for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT).close()


def check_room(cpus: float, gpus: float) -> None:
    """Raise InputError if no machine has the resources of one worker. Ray itself would wait for such a machine."""
    machines = [node["Resources"] for node in load().nodes() if node["Alive"]]
    for name, wanted in (("CPU", cpus), ("GPU", gpus)):
        if wanted and not any(machine.get(name, 0.0) >= wanted for machine in machines):
            raise InputError(f"no machine of the Ray cluster has {wanted:g} {name}s; ask for fewer or add a machine")


def leave() -> None:
    """Disconnect from Ray. A local Ray cluster ends."""
    load().shutdown()
