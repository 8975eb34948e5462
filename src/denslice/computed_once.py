"""computed_once: functools.cached_property without the lock that it has in Python 3.11.

All instances of a class share that lock, so threads would wait for each other's disks and servers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Owner = TypeVar("Owner")
Computed = TypeVar("Computed")


class computed_once(Generic[Owner, Computed]):  # noqa: N801 (it is used as a decorator)
    """A property that is computed on first access and kept. Threads that access it at the same time may each do so."""

    def __init__(self, compute: Callable[[Owner], Computed]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(self, instance: Owner, owner: type | None = None) -> Computed: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        return vars(instance).setdefault(self._name, self._compute(instance))
