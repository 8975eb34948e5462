"""Ray, found and started quietly: the one place that knows whether it is installed."""

from __future__ import annotations

import logging
import os
import socket
from types import ModuleType
from typing import Any

from denslice.errors import InputError, MissingExtraError

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
}
REACHED_WITHIN = 10.0  # seconds


def load() -> ModuleType:
    """The package ray; MissingExtraError where it is not installed."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise MissingExtraError("a cluster", "ray") from error
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    return ray


def connect(address: str | None) -> bool:
    """Joins the Ray cluster at the address; whether this was needed, and is to be undone by `leave`.

    Addresses are Ray's: host:port, "auto" for the one running here, "local" for a new one that ends with this process.
    Without an address this process must have joined one already.
    """
    ray = load()
    if ray.is_initialized():
        return False
    if address is None:
        raise InputError('no address of a Ray cluster: name one, such as 10.0.0.1:6379, or "local"')
    told: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        told["include_dashboard"] = False
    try:
        _reach(address)
        ray.init(address, **told)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"no Ray cluster at {address} ({reason}); start one with `ray start --head`") from error
    return True


def _reach(address: str) -> None:
    """OSError if nothing listens at host:port: Ray itself would try for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), REACHED_WITHIN).close()


def check_room(cpus: float, gpus: float) -> None:
    """InputError if no machine of the Ray cluster could ever hold a worker of this size: Ray would wait for one."""
    machines = [node["Resources"] for node in load().nodes() if node["Alive"]]
    for name, wanted in (("CPU", cpus), ("GPU", gpus)):
        if wanted and not any(machine.get(name, 0.0) >= wanted for machine in machines):
            raise InputError(f"no machine of the Ray cluster has {wanted:g} {name}s")


def leave() -> None:
    """Leaves the Ray cluster; what was started for this process ends."""
    load().shutdown()
