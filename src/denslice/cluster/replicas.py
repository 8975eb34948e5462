"""The replicas of all shards. A request goes to one replica of each shard, and to the others too if it is late."""

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

CALLS_PER_REPLICA = 4  # concurrent calls
POLL_SECONDS = 0.5
START_TIMEOUT = 300.0  # seconds, at least: the first replica may have to compile
ShardRequest = tuple[str, bytes]  # the oldest commit that may answer, and the packed request
ShardRequests = Mapping[int, ShardRequest]  # by shard
Call = Any  # Ray's reference to a future result
Calls = dict[Call, tuple[int, int]]  # call → shard and replica


@dataclass(frozen=True)
class ReplicaOptions:
    """The number of replicas, and the resources and timeouts of each. `cpus=None` is an even share.

    A replica that has not answered after `patience` seconds is late, and the request goes to the other replicas too. A
    shard is missing if none of its replicas has answered after `wait` seconds.
    """

    replicas: int = 1
    cpus: float | None = None
    gpus: float = 0.0
    patience: float = 1.0
    wait: float = 60.0
    on: OpenOptions = ON_CPU

    def __post_init__(self) -> None:
        object.__setattr__(self, "replicas", whole_number("replicas", self.replicas, 1))
        for name in ("cpus", "gpus", "patience", "wait"):
            value = getattr(self, name)
            if value is not None or name != "cpus":
                object.__setattr__(self, name, number(name, value, 0))


class Replicas:
    """The replicas of every shard. Those of one shard are on different machines if there are enough."""

    def __init__(self, layout: Layout, options: ReplicaOptions) -> None:
        self.layout = layout
        self.options = options
        self._ray = ray_engine.load()
        self._turn = count()
        self._late: dict[tuple[int, int], tuple[Call, float]] = {}  # (shard, replica) → its late call and since when
        self._lock = threading.Lock()
        self.cpus = self._share() if options.cpus is None else options.cpus

    @cached_property
    def _actors(self) -> list[list[Any]]:
        """The actors of each shard. They are started on first use."""
        ray_engine.check_room(self.cpus, self.options.gpus)
        nodes = sorted(node["NodeID"] for node in self._ray.nodes() if node["Alive"])
        return [
            [self._start(shard, nodes[(shard + at) % len(nodes)]) for at in range(self.options.replicas)]
            for shard in range(self.layout.shards)
        ]

    def _share(self) -> float:
        """Return an even share of half the CPUs of all machines. The other half is for writes."""
        share = 0.5 * self._ray.cluster_resources().get("CPU", 0.0) / (self.layout.shards * self.options.replicas)
        return min(1.0, int(share * 1_000) / 1_000)

    def _start(self, shard: int, node: str) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        actor = self._ray.remote(Replica).options(
            num_cpus=self.cpus,
            num_gpus=self.options.gpus,
            max_restarts=-1,
            max_task_retries=-1,
            max_concurrency=CALLS_PER_REPLICA,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=True),
        )
        return actor.remote(str(self.layout.shard(shard)), self.options.on)

    def wait_until_ready(self) -> list[int]:
        """Wait until all replicas are ready, and return the shards of which none was ready in time."""
        calls = {actor.ready.remote(): shard for shard, actors in enumerate(self._actors) for actor in actors}
        allowed = max(self.options.wait, START_TIMEOUT)
        done, _ = self._ray.wait(list(calls), num_returns=len(calls), timeout=allowed)
        return sorted(set(range(self.layout.shards)) - {calls[call] for call in done})

    def ask(self, requests: ShardRequests) -> dict[int, bytes]:
        """Return the responses of the shards; a shard that did not answer is left out."""
        turn = next(self._turn)
        calls: Calls = {}
        for shard, request in requests.items():
            at = self._choose(shard, turn)
            calls[self._call(shard, at, request)] = (shard, at)
        try:
            return dict(zip(requests, self._get(list(calls), self.options.patience), strict=True))
        except (self._ray.exceptions.GetTimeoutError, self._ray.exceptions.RayActorError):
            ready, _ = self._ray.wait(list(calls), num_returns=len(calls), timeout=0)
        answers = self._answers(ready, calls)
        late = {call: place for call, place in calls.items() if place[0] not in answers}
        return answers | (self._ask_others(requests, late) if late else {})

    def close(self) -> None:
        """Stop every replica."""
        for actor in (actor for actors in vars(self).pop("_actors", []) for actor in actors):
            self._ray.kill(actor)

    def _choose(self, shard: int, turn: int) -> int:
        """Choose the next replica of a shard in turn, among those that are not late if there are any."""
        on_time = [at for at in range(self.options.replicas) if not self._is_late(shard, at)]
        return on_time[turn % len(on_time)] if on_time else turn % self.options.replicas

    def _is_late(self, shard: int, at: int) -> bool:
        """Return whether a call to this replica is late and still not answered."""
        with self._lock:
            if (shard, at) not in self._late:
                return False
            call, _ = self._late[shard, at]
            if self._ray.wait([call], timeout=0)[0]:
                del self._late[shard, at]
            return (shard, at) in self._late

    def _ask_others(self, requests: ShardRequests, calls: Calls) -> dict[int, bytes]:
        """Send the requests of late calls to the other replicas too, and return the first response of each shard."""
        deadlines = {shard: self._deadline(shard) for shard, _ in calls.values()}
        self._remember(calls)
        others = [(shard, at) for shard in deadlines for at in range(self.options.replicas)]
        others = [place for place in others if place not in set(calls.values())]
        calls = calls | {self._call(*place, requests[place[0]]): place for place in others}
        answers: dict[int, bytes] = {}
        while waiting := [
            call for call, (shard, _) in calls.items() if shard not in answers and time.monotonic() < deadlines[shard]
        ]:
            ready, _ = self._ray.wait(waiting, timeout=POLL_SECONDS)
            answers |= self._answers(ready, calls)
            calls = {call: place for call, place in calls.items() if call not in ready}
        self._remember({call: place for call, place in calls.items() if place[0] not in answers})
        return answers

    def _remember(self, calls: Calls) -> None:
        """Mark the replicas of these calls as late until they answer."""
        with self._lock:
            for call, place in calls.items():
                self._late.setdefault(place, (call, time.monotonic()))

    def _deadline(self, shard: int) -> float:
        """Return when to give up on a shard: sooner if all its replicas have been late for a while."""
        now = time.monotonic()
        with self._lock:
            since = [self._late.get((shard, at), (None, now))[1] for at in range(self.options.replicas)]
        return max(max(since) + self.options.wait, now + self.options.patience)

    def _call(self, shard: int, at: int, request: ShardRequest) -> Call:
        return self._actors[shard][at].answer.remote(*request)

    def _answers(self, ready: Sequence[Call], calls: Calls) -> dict[int, bytes]:
        """Return the responses of calls, except those of lost replicas. Raise an error that a shard raised."""
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
