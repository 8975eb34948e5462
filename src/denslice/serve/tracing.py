"""OpenTelemetry spans of searches and their stages, if opentelemetry-api is installed and an SDK is set up."""

from __future__ import annotations

import time

from denslice.stage_timers import StageTimes

try:
    from opentelemetry import trace
except ModuleNotFoundError:
    IS_INSTALLED = False
else:
    IS_INSTALLED = True

NANOSECONDS = 1_000_000_000


def trace_search(times: StageTimes, waited: float, queries: int, batch: int) -> None:
    """Add a span for a search to that of its request, and within it one for each stage of its batch.

    FastAPI makes the span of a request; versions that do not need opentelemetry-instrument to make it.
    """
    if not IS_INSTALLED or isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider) or not times:
        return
    tracer, epoch = trace.get_tracer("denslice"), time.time() - time.perf_counter()

    def nanoseconds(at: float) -> int:
        return round(NANOSECONDS * (epoch + at))

    sizes = {"denslice.queries": queries, "denslice.batch": batch}
    began, ended = min(times.began.values()) - waited, max(times.ended.values())
    whole = tracer.start_span("denslice.search", attributes=sizes, start_time=nanoseconds(began))
    within = trace.set_span_in_context(whole)
    for name, start in times.began.items():
        tracer.start_span(name, within, start_time=nanoseconds(start)).end(nanoseconds(times.ended[name]))
    whole.end(nanoseconds(ended))
