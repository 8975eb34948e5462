"""Profiles of searches: seconds by stage, and how much was read. `profiled` opens one, and the code within fills it.

A search that runs in other processes, as in a cluster, tells its stages alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock

from denslice.stage_timers import StageTimes, timed


@dataclass(frozen=True)
class Profile:
    """What searches cost: seconds by stage, and counts of what was read and what there was, by name.

    `postings`, `clusters` and `vectors` are what a search that skips nothing would read, and the names with `_read` are
    what was read, which is more if something is read twice. `words_scored` are documents whose weights were read,
    `vectors_scored` those whose vectors were read whole, after their first bytes or without.
    """

    seconds: StageTimes = field(default_factory=StageTimes)
    counts: dict[str, int] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    def add(self, name: str, number: int) -> None:
        """Add to a count. Queries of one batch are searched by several threads."""
        with self._lock:
            self.counts[name] = self.counts.get(name, 0) + int(number)

    def lines(self) -> list[str]:
        """Return the stages in a line, and each count in one, beside what there was to read."""
        stages = ", ".join(f"{name} {1e3 * spent:.2f} ms" for name, spent in self.seconds.items())
        whole = {name: f" of {self.counts[name]:,}" for name in self.counts if f"{name}_read" in self.counts}
        shown = {name: number for name, number in self.counts.items() if name not in whole}
        told = [
            f"{name.replace('_', ' ')}: {number:,}{whole.get(name.removesuffix('_read'), '')}"
            for name, number in shown.items()
        ]
        return [stages, *told] if stages else told

    def __str__(self) -> str:
        return "\n".join(self.lines())


_profile: ContextVar[Profile | None] = ContextVar("profile", default=None)


@contextmanager
def added_to(profile: Profile | None) -> Iterator[None]:
    """Let this thread add to a profile that another one has opened."""
    before = _profile.set(profile)
    try:
        yield
    finally:
        _profile.reset(before)


@contextmanager
def profiled(*, with_counts: bool = True) -> Iterator[Profile]:
    """Yield a profile of the searches that this thread makes within the block; without counts, it has seconds alone."""
    with timed() as seconds:
        profile = Profile(seconds)
        with added_to(profile if with_counts else None):
            yield profile


def open_profile() -> Profile | None:
    """Return the profile that is being filled, if there is one."""
    return _profile.get()


def count(name: str, number: int) -> None:
    """Add to a count of the profile, if one is open."""
    if (profile := _profile.get()) is not None:
        profile.add(name, number)
