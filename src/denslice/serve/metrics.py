"""Prometheus metrics: requests, seconds by stage, the queue, background tasks and the served commit."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128)
METHODS = ("GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS")


class Metrics:
    """The metrics of one app, in their own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
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
        self.waiting = self._gauge("queue_waiting", "Queries in the queue.")
        self.running = self._gauge("queue_running", "Queries being searched.")
        self._generation = self._gauge("index_generation", "The generation of the index that is served.")
        self._documents = self._gauge("index_documents", "Documents of the index that is served.")
        self._quick = self._gauge("index_quick_documents", "Documents that are still at the quick level.")

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a response."""
        method = method if method in METHODS else "other"
        self._requests.labels(route, method, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

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
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def _counter(self, name: str, help: str, *labels: str) -> Counter:
        return Counter(f"denslice_{name}", help, labels, registry=self.registry)

    def _gauge(self, name: str, help: str) -> Gauge:
        return Gauge(f"denslice_{name}", help, registry=self.registry)

    def _histogram(self, name: str, help: str, *labels: str) -> Histogram:
        return Histogram(f"denslice_{name}", help, labels, buckets=SECONDS_BUCKETS, registry=self.registry)
