"""The figures of one harness, for Prometheus."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
LONG = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
MOST_NAMES = 64
OTHER = "other"


class Metrics:
    """Counters and gauges with a registry of their own: two harnesses in one process do not share them."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "deerflow_http_requests", "Requests by route.", ["method", "route", "status"], registry=registry
        )
        self.request_seconds = Histogram(
            "deerflow_http_request_seconds",
            "From a request to the beginning of its answer.",
            ["method", "route"],
            buckets=QUICK,
            registry=registry,
        )
        self.runs_ended = Counter(
            "deerflow_runs_ended", "Runs carried out here, by how they ended.", ["status"], registry=registry
        )
        self.run_seconds = Histogram(
            "deerflow_run_seconds", "From the acceptance of a run to its end.", buckets=LONG, registry=registry
        )
        self.runs_unfinished = Gauge(
            "deerflow_runs_unfinished", "Runs under way and waiting, in all processes.", ["status"], registry=registry
        )
        self.runs_here = Gauge("deerflow_runs_here", "Runs this process carries out.", registry=registry)
        self.readers = Gauge("deerflow_readers", "Readers that follow a run.", registry=registry)
        self.events = Counter("deerflow_events", "Events appended to the logs of runs.", registry=registry)
        self.database_seconds = Histogram(
            "deerflow_database_seconds",
            "What the database takes, waiting included.",
            ["operation"],
            buckets=QUICK,
            registry=registry,
        )
        self._model_calls = Counter("deerflow_model_calls", "Answers of models.", ["model"], registry=registry)
        self._tokens = Counter(
            "deerflow_tokens", "Tokens by model and direction.", ["model", "direction"], registry=registry
        )
        self._tool_calls = Counter("deerflow_tool_calls", "Results of tools.", ["tool", "outcome"], registry=registry)
        self._names: dict[str, set[str]] = {"model": set(), "tool": set()}

    def to_text(self) -> bytes:
        """Everything, in the format Prometheus reads."""
        return generate_latest(self._registry)

    def count_model_call(self, model: str, tokens_in: int, tokens_out: int) -> None:
        """Note that a model has answered."""
        name = self._bounded("model", model)
        self._model_calls.labels(name).inc()
        self._tokens.labels(name, "input").inc(tokens_in)
        self._tokens.labels(name, "output").inc(tokens_out)

    def count_tool_call(self, tool: str, outcome: str) -> None:
        """Note that a tool has answered; what commands do in the sandbox is `bash`."""
        self._tool_calls.labels(self._bounded("tool", tool), outcome).inc()

    @contextmanager
    def database_call(self, operation: str) -> Iterator[None]:
        """Note how long the database takes."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.database_seconds.labels(operation).observe(time.perf_counter() - began)

    def _bounded(self, kind: str, name: str) -> str:
        """The name, unless there are too many already: vendors and models can invent them."""
        known = self._names[kind]
        if name not in known and len(known) >= MOST_NAMES:
            return OTHER
        known.add(name)
        return name
