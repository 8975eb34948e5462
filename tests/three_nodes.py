"""A Ray cluster of three nodes on this machine, small and quiet, for tests and benchmarks; and texts to put in one."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from denslice.cluster import ray_engine

STORE = 150_000_000  # bytes of shared memory for each node
FAST = {"health_check_period_ms": 300, "health_check_timeout_ms": 1_000, "health_check_failure_threshold": 3}
KEEPING = {"idle_worker_killing_time_threshold_ms": 600_000, "num_workers_soft_limit": 6}  # starting one takes a second
WORDS = [f"{a}{b}" for a in ("ba", "do", "ki", "lu", "me", "no", "pa", "ri", "su", "ta") for b in ("bel", "den", "kor")]


class Unseen:
    """A counter that adds up and shows nothing."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def expect(self, total: int | None) -> None:
        """Takes no notice."""

    def advance(self, count: int) -> None:
        """Remembers."""
        self.seen.append(count)


class Nodes:
    """Three nodes; the first, the head, stays. `kill` ends one of the others as a power cut would."""

    def __init__(self, cpus: float = 1.0, cards: int = 0) -> None:
        from ray.cluster_utils import Cluster

        self.cpus, self.cards = cpus, cards
        first = {"num_cpus": cpus, "num_gpus": cards, "object_store_memory": STORE, "include_dashboard": False}
        self.cluster: Any = Cluster(initialize_head=True, head_node_args={**first, "_system_config": FAST | KEEPING})
        self.others = [self.add(), self.add()]

    @property
    def address(self) -> str:
        """Where Ray is reached."""
        return str(self.cluster.address)

    def add(self) -> Any:
        """Another node."""
        return self.cluster.add_node(num_cpus=self.cpus, num_gpus=self.cards, object_store_memory=STORE)

    def kill(self) -> None:
        """Kills a node: its raylet, and with it every worker, by SIGKILL."""
        node = self.others.pop()
        raylet = node.all_processes["raylet"][0].process
        os.kill(raylet.pid, signal.SIGKILL)
        self.cluster.remove_node(node, allow_graceful=False)

    def shutdown(self) -> None:
        """Ends every process of every node, and waits until they are gone."""
        nodes = self.cluster.list_all_nodes()
        started = [one.process.pid for node in nodes for some in node.all_processes.values() for one in some]
        self.cluster.shutdown()
        wait_until_gone(started)


@contextmanager
def three_nodes(cpus: float = 1.0, cards: int = 0) -> Iterator[Nodes]:
    """Three nodes that this process has joined, gone at the end of the block."""
    ray_engine.load()
    nodes = Nodes(cpus, cards)
    try:
        ray_engine.connect(nodes.address)
        yield nodes
    finally:
        ray_engine.leave()
        nodes.shutdown()


def wait_until_gone(pids: Sequence[int]) -> None:
    """Waits until these processes have ended."""
    deadline = time.monotonic() + 20
    while left := [pid for pid in pids if _is_alive(pid)]:
        if time.monotonic() > deadline:
            raise RuntimeError(f"processes of Ray outlive their end: {left}")
        time.sleep(0.05)


def write_texts(path: Path, count: int, seed: int = 0, first: int = 0) -> Path:
    """A JSONL file of made-up documents with metadata; some have several passages."""
    made = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        for at in range(first, first + count):
            words = [*made.choices(WORDS, range(1, len(WORDS) + 1), k=made.randint(3, 40)), f"only{at}"]
            if at % 9 == 4:
                words += made.choices(WORDS, k=400)
            doc = {"id": f"d{at}", "title": made.choice(WORDS), "text": " ".join(words), "year": 2000 + at % 20}
            file.write(json.dumps(doc) + "\n")
    return path


def questions(count: int, seed: int = 1) -> list[str]:
    """Made-up queries over the words of the documents."""
    made = random.Random(seed)
    return [" ".join(made.choices(WORDS, k=made.randint(1, 4))) for _ in range(count)]


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
