"""computed_once keeps its value, and threads that compute it for different objects do not wait for each other."""

from __future__ import annotations

from threading import Event, Thread

from denslice.computed_once import computed_once

WAIT = 30.0  # seconds, for what happens at once


class Fetched:
    def __init__(self, may_end: Event) -> None:
        self.may_end, self.begun, self.times = may_end, Event(), 0

    @computed_once
    def text(self) -> str:
        """The text."""
        self.times += 1
        self.begun.set()
        assert self.may_end.wait(WAIT)
        return f"text {self.times}"


def test_it_is_computed_on_first_access_and_kept() -> None:
    ready = Event()
    ready.set()
    one = Fetched(ready)
    assert (one.times, one.text, one.text, one.times) == (0, "text 1", "text 1", 1)
    assert Fetched.text.__doc__ == "The text."


def test_a_slow_object_does_not_stop_another_one() -> None:
    ready = Event()
    slow, fast = Fetched(ready), Fetched(Event())
    fast.may_end.set()
    thread = Thread(target=lambda: slow.text)
    thread.start()
    assert slow.begun.wait(WAIT)
    assert fast.text == "text 1"  # would never return if both shared a lock
    ready.set()
    thread.join()
    assert slow.text == "text 1"
