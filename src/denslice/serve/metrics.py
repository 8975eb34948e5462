"""What a Prometheus server may read: requests, stages, the queue, and the index that is shown."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
METHODS = ("GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS")


class Metrics:
    """The counters of one app, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = self._counter("requests", "Requests answered.", "route", "method", "status")
        self._request_seconds = self._histogram("request_seconds", "From a request's head to its answer.", "route")
        self._stage_seconds = self._histogram("stage_seconds", "What each stage of a batch took.", "stage")
        self._batch = Histogram(
            "denslice_batch_queries", "Queries searched together.", buckets=SIZES, registry=self.registry
        )
        self._refused = self._counter("refused", "Requests refused.", "reason")
        self.background_failures = self._counter(
            "background_failures", "Failures of the server's own tasks, which are tried again.", "task"
        )
        self.waiting = self._gauge("queue_waiting", "Queries that wait for their turn.")
        self.running = self._gauge("queue_running", "Queries being searched.")
        self._generation = self._gauge("index_generation", "The commit of the index that is shown.")
        self._documents = self._gauge("index_documents", "Documents that can be found.")

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Counts an answered request."""
        method = method if method in METHODS else "other"
        self._requests.labels(route, method, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def batch(self, size: int, stages: Mapping[str, float]) -> None:
        """Counts a batch and the seconds of its stages."""
        self._batch.observe(size)
        for name, seconds in stages.items():
            self.stage(name, seconds)

    def stage(self, name: str, seconds: float) -> None:
        """Counts one stage's seconds."""
        self._stage_seconds.labels(name).observe(seconds)

    def refused(self, reason: str) -> None:
        """Counts a refusal."""
        self._refused.labels(reason).inc()

    def shown(self, generation: int, documents: int) -> None:
        """Sets which commit is shown."""
        self._generation.set(generation)
        self._documents.set(documents)

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self.registry)

    def _counter(self, name: str, told: str, *labels: str) -> Counter:
        return Counter(f"denslice_{name}", told, labels, registry=self.registry)

    def _gauge(self, name: str, told: str) -> Gauge:
        return Gauge(f"denslice_{name}", told, registry=self.registry)

    def _histogram(self, name: str, told: str, *labels: str) -> Histogram:
        return Histogram(f"denslice_{name}", told, labels, buckets=SECONDS, registry=self.registry)
