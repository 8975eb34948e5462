"""Asking shards: one replica of each, another where the first is late, and who gave no answer at all."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

from denslice.cluster import ray_engine
from denslice.cluster.cluster_folder import Layout
from denslice.cluster.replica import Replica
from denslice.errors import DensliceError
from denslice.options import ON_CPU, OpenOptions
from denslice.scalars import number, whole_number

AT_ONCE = 4  # calls a replica works on side by side
POLL = 0.5  # seconds
OPENING = 300.0  # seconds that replicas are given to start, at least: the first one may have to compile
Request = tuple[str, bytes]  # the commit that must be seen, or a later one, and the question, packed
Requests = Mapping[int, Request]  # by shard
Call = Any  # Ray's reference to a result that will come
Calls = dict[Call, tuple[int, int]]  # the shard and the replica that each call is for


@dataclass(frozen=True)
class Serving:
    """How a cluster is served. `cpus` and `gpus` are what Ray sets aside for each replica; None is an even share.

    A replica that has not answered after `patience` seconds is late, and another one is asked beside it; a shard none
    of whose replicas has answered after `wait` seconds is missing.
    """

    replicas: int = 1
    cpus: float | None = None
    gpus: float = 0.0
    patience: float = 1.0
    wait: float = 60.0
    on: OpenOptions = ON_CPU  # where replicas search

    def __post_init__(self) -> None:
        object.__setattr__(self, "replicas", whole_number("replicas", self.replicas, 1))
        for name in ("cpus", "gpus", "patience", "wait"):
            value = getattr(self, name)
            if value is not None or name != "cpus":
                object.__setattr__(self, name, number(name, value, 0))


class Replicas:
    """The replicas of every shard, spread over the machines so that those of one shard are apart."""

    def __init__(self, layout: Layout, serving: Serving) -> None:
        self.layout = layout
        self.serving = serving
        self._ray = ray_engine.load()
        self._turn = count()
        self._late: dict[tuple[int, int], tuple[Call, float]] = {}  # the call that is late, and since when
        self._lock = threading.Lock()
        self.cpus = self._share() if serving.cpus is None else serving.cpus

    @cached_property
    def _actors(self) -> list[list[Any]]:
        """The replicas of each shard, started when first asked for."""
        ray_engine.check_room(self.cpus, self.serving.gpus)
        nodes = sorted(node["NodeID"] for node in self._ray.nodes() if node["Alive"])
        return [
            [self._start(shard, nodes[(shard + at) % len(nodes)]) for at in range(self.serving.replicas)]
            for shard in range(self.layout.shards)
        ]

    def _share(self) -> float:
        """An even share of half the CPUs of all machines; the other half is for changes."""
        share = 0.5 * self._ray.cluster_resources().get("CPU", 0.0) / (self.layout.shards * self.serving.replicas)
        return min(1.0, int(share * 1_000) / 1_000)

    def _start(self, shard: int, node: str) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        actor = self._ray.remote(Replica).options(
            num_cpus=self.cpus,
            num_gpus=self.serving.gpus,
            max_restarts=-1,
            max_task_retries=-1,
            max_concurrency=AT_ONCE,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=True),
        )
        return actor.remote(str(self.layout.shard(shard)), self.serving.on)

    def wait_until_ready(self) -> list[int]:
        """Waits until every shard has a replica that answers; the shards that have none in time."""
        calls = {actor.ready.remote(): shard for shard, actors in enumerate(self._actors) for actor in actors}
        allowed = max(self.serving.wait, OPENING)
        done, _ = self._ray.wait(list(calls), num_returns=len(calls), timeout=allowed)
        return sorted(set(range(self.layout.shards)) - {calls[call] for call in done})

    def ask(self, requests: Requests) -> dict[int, bytes]:
        """The answer of each shard to what it is asked; shards that gave none are not in it."""
        turn = next(self._turn)
        calls: Calls = {}
        for shard, request in requests.items():
            at = self._choose(shard, turn)
            calls[self._call(shard, at, request)] = (shard, at)
        try:
            return dict(zip(requests, self._get(list(calls), self.serving.patience), strict=True))
        except (self._ray.exceptions.GetTimeoutError, self._ray.exceptions.RayActorError):
            ready, _ = self._ray.wait(list(calls), num_returns=len(calls), timeout=0)
        answers = self._answers(ready, calls)
        late = {call: place for call, place in calls.items() if place[0] not in answers}
        return answers | (self._ask_others(requests, late) if late else {})

    def close(self) -> None:
        """Ends every replica."""
        for actor in (actor for actors in vars(self).pop("_actors", []) for actor in actors):
            self._ray.kill(actor)

    def _choose(self, shard: int, turn: int) -> int:
        """The replica whose turn it is, of those that are not late; of all where every one is."""
        on_time = [at for at in range(self.serving.replicas) if not self._is_late(shard, at)]
        return on_time[turn % len(on_time)] if on_time else turn % self.serving.replicas

    def _is_late(self, shard: int, at: int) -> bool:
        """Whether a call of this replica is still open that was late before."""
        with self._lock:
            if (shard, at) not in self._late:
                return False
            call, _ = self._late[shard, at]
            if self._ray.wait([call], timeout=0)[0]:
                del self._late[shard, at]
            return (shard, at) in self._late

    def _ask_others(self, requests: Requests, calls: Calls) -> dict[int, bytes]:
        """The answers of shards whose first replica is late: whoever answers first, of all their replicas."""
        deadlines = {shard: self._deadline(shard) for shard, _ in calls.values()}
        self._remember(calls)
        others = [(shard, at) for shard in deadlines for at in range(self.serving.replicas)]
        others = [place for place in others if place not in set(calls.values())]
        calls = calls | {self._call(*place, requests[place[0]]): place for place in others}
        answers: dict[int, bytes] = {}
        while waiting := [
            call for call, (shard, _) in calls.items() if shard not in answers and time.monotonic() < deadlines[shard]
        ]:
            ready, _ = self._ray.wait(waiting, timeout=POLL)
            answers |= self._answers(ready, calls)
            calls = {call: place for call, place in calls.items() if call not in ready}
        self._remember({call: place for call, place in calls.items() if place[0] not in answers})
        return answers

    def _remember(self, calls: Calls) -> None:
        """These replicas are late from now on, or from when they first were, until they answer."""
        with self._lock:
            for call, place in calls.items():
                self._late.setdefault(place, (call, time.monotonic()))

    def _deadline(self, shard: int) -> float:
        """When to give up on a shard: sooner where every replica has been late for a while already."""
        now = time.monotonic()
        with self._lock:
            since = [self._late.get((shard, at), (None, now))[1] for at in range(self.serving.replicas)]
        return max(max(since) + self.serving.wait, now + self.serving.patience)

    def _call(self, shard: int, at: int, request: Request) -> Call:
        return self._actors[shard][at].answer.remote(*request)

    def _answers(self, ready: Sequence[Call], calls: Calls) -> dict[int, bytes]:
        """The shards' answers; a replica that is gone for good has none. An error that a shard tells is raised."""
        answers: dict[int, bytes] = {}
        for call in ready:
            with suppress(self._ray.exceptions.RayActorError):
                answers[calls[call][0]] = self._get(call)
        return answers

    def _get(self, calls: Call | list[Call], timeout: float | None = None) -> Any:
        try:
            return self._ray.get(calls, timeout=timeout)
        except self._ray.exceptions.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, DensliceError) else error) from None
