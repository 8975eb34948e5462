"""Prometheus metrics: requests, seconds by stage, the queue, background tasks and the served commit.

Several workers share files, of which any worker returns the sum; the environment names their folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # in the environment of workers

SECONDS_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128)
CHILDREN = 256  # sets of labels that are remembered
OfWorkers = Literal["livesum", "livemostrecent"]
METHODS = ("GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS")


class Metrics:
    """The metrics of one app, in their own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._is_shared = METRICS_FOLDER in os.environ
        if not self._is_shared:
            ProcessCollector(registry=self.registry)
        self._requests = self._counter("requests", "Responses sent.", "route", "method", "status")
        self._request_seconds = self._histogram(
            "request_seconds", "Seconds from the headers of a request to its response.", "route"
        )
        self._stage_seconds = self._histogram("stage_seconds", "Seconds of each stage of a batch.", "stage")
        self._batch = Histogram(
            "denslice_batch_queries", "Queries searched in one batch.", buckets=BATCH_BUCKETS, registry=self.registry
        )
        self._refused = self._counter("refused", "Requests refused by a check or a limit, by error code.", "reason")
        self.background_failures = self._counter(
            "background_failures", "Failures of background tasks, which are tried again.", "task"
        )
        self.waiting = self._gauge("queue_waiting", "Queries in the queue.", "livesum")
        self.running = self._gauge("queue_running", "Queries being searched.", "livesum")
        self._generation = self._gauge("index_generation", "The generation of the index that is served.")
        self._documents = self._gauge("index_documents", "Documents of the index that is served.")
        self._quick = self._gauge("index_quick_documents", "Documents that are still at the quick level.")
        self._children = lru_cache(CHILDREN)(self._labelled)

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a response."""
        method = method if method in METHODS else "other"
        requests, request_seconds = self._children(route, method, str(status))
        requests.inc()
        request_seconds.observe(seconds)

    def _labelled(self, route: str, method: str, status: str) -> tuple[Counter, Histogram]:
        return self._requests.labels(route, method, status), self._request_seconds.labels(route)

    def batch(self, size: int, stages: Mapping[str, float]) -> None:
        """Count a batch and the seconds of its stages."""
        self._batch.observe(size)
        for name, seconds in stages.items():
            self.stage(name, seconds)

    def stage(self, name: str, seconds: float) -> None:
        """Count the seconds of one stage."""
        self._stage_seconds.labels(name).observe(seconds)

    def refused(self, reason: str) -> None:
        """Count a refused request."""
        self._refused.labels(reason).inc()

    def shown(self, generation: int, documents: int, quick: int) -> None:
        """Set the commit that is served."""
        self._generation.set(generation)
        self._documents.set(documents)
        self._quick.set(quick)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format: with several workers, the sum over all there were."""
        if not self._is_shared:
            return generate_latest(self.registry)
        shared = CollectorRegistry()
        MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
        return generate_latest(shared)

    def _counter(self, name: str, help: str, *labels: str) -> Counter:
        return Counter(f"denslice_{name}", help, labels, registry=self.registry)

    def _gauge(self, name: str, help: str, of_workers: OfWorkers = "livemostrecent") -> Gauge:
        return Gauge(f"denslice_{name}", help, registry=self.registry, multiprocess_mode=of_workers)

    def _histogram(self, name: str, help: str, *labels: str) -> Histogram:
        return Histogram(f"denslice_{name}", help, labels, buckets=SECONDS_BUCKETS, registry=self.registry)
