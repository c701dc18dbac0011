"""Prometheus metrics of one harness."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SHORT_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
LONG_BUCKETS = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
MAX_LABEL_VALUES = 64
OTHER_LABEL = "other"


class Metrics:
    """Counters and gauges with their own registry: two harnesses in one process do not share them."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "deerflow_http_requests", "Requests by route.", ["method", "route", "status"], registry=registry
        )
        self.request_seconds = Histogram(
            "deerflow_http_request_seconds",
            "Time from a request to the start of its response.",
            ["method", "route"],
            buckets=SHORT_BUCKETS,
            registry=registry,
        )
        self.runs_ended = Counter(
            "deerflow_runs_ended", "Ended runs of this process, by status.", ["status"], registry=registry
        )
        self.run_seconds = Histogram(
            "deerflow_run_seconds",
            "Time from the acceptance of a run to its end.",
            buckets=LONG_BUCKETS,
            registry=registry,
        )
        self.runs_unfinished = Gauge(
            "deerflow_runs_unfinished", "Active and queued runs in all processes.", ["status"], registry=registry
        )
        self.runs_here = Gauge("deerflow_runs_here", "Active runs of this process.", registry=registry)
        self.readers = Gauge("deerflow_readers", "Clients that follow a run.", registry=registry)
        self.events = Counter("deerflow_events", "Events appended to run logs.", registry=registry)
        self.database_seconds = Histogram(
            "deerflow_database_seconds",
            "Duration of database calls, including waiting.",
            ["operation"],
            buckets=SHORT_BUCKETS,
            registry=registry,
        )
        self._model_calls = Counter("deerflow_model_calls", "Model answers.", ["model"], registry=registry)
        self._tokens = Counter(
            "deerflow_tokens", "Tokens by model and direction.", ["model", "direction"], registry=registry
        )
        self._tool_calls = Counter("deerflow_tool_calls", "Tool results.", ["tool", "outcome"], registry=registry)
        self._names: dict[str, set[str]] = {"model": set(), "tool": set()}

    def to_text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self._registry)

    def count_model_call(self, model: str, tokens_in: int, tokens_out: int) -> None:
        """Count an answer of a model and its tokens."""
        name = self._bounded("model", model)
        self._model_calls.labels(name).inc()
        self._tokens.labels(name, "input").inc(tokens_in)
        self._tokens.labels(name, "output").inc(tokens_out)

    def count_tool_call(self, tool: str, outcome: str) -> None:
        """Count the result of a tool; commands in the sandbox count as `bash`."""
        self._tool_calls.labels(self._bounded("tool", tool), outcome).inc()

    @contextmanager
    def time_database_call(self, operation: str) -> Iterator[None]:
        """Measure the duration of a database call."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.database_seconds.labels(operation).observe(time.perf_counter() - began)

    def _bounded(self, kind: str, name: str) -> str:
        """Return the name, or `other` when there are too many: vendors and models can invent names."""
        known = self._names[kind]
        if name not in known and len(known) >= MAX_LABEL_VALUES:
            return OTHER_LABEL
        known.add(name)
        return name
