"""Arbitrary replies of models and bytes of endpoints: every run ends once, and nothing else is affected.

Together 500 examples in `make test`; `make test-nightly` tries 20,000 of each kind.
"""

import asyncio
import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunEvent, RunRequest
from deerflow.harness import Harness, open_harness
from deerflow.testing import Answer, ScriptedModel, ScriptedServer
from deerflow.testing.turns import Raw, ToolRequest

EXAMPLES = max(250, settings().max_examples)
MAX_GROWTH = 300 * 2**20
LIMIT_S = 60
QUIET: dict[str, Any] = {"memory": {"enabled": False}, "title": {"enabled": False}, "log_level": "error"}
TOOLS = {"tools": [{"name": "echo", "group": "test", "use": "tests.runtime.test_unusual_values:echo"}]}

TEXT = st.text(st.characters(exclude_categories=()), max_size=40)
NUMBERS = st.integers() | st.integers(-(2**80), 2**80) | st.floats()
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


def nest(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


DEPTHS = st.sampled_from([0, 0, 99, 101, 300])
ARGUMENTS = (
    st.builds(
        lambda value, depth: write_json({"value": nest(value, depth)}), VALUES, st.sampled_from([0, 0, 99, 101, 300])
    )
    | st.builds(lambda value, end: write_json({"value": value})[:end], VALUES, st.integers(0, 60))
    | st.text(max_size=40)
)
CALLS = st.builds(ToolRequest, st.sampled_from(["echo", "echo", "none", ""]) | TEXT, ARGUMENTS)
PIECES = st.lists(TEXT, min_size=1, max_size=4).map(tuple)
REPLIES = st.builds(
    Answer, PIECES, PIECES | st.just(()), st.lists(CALLS, max_size=3).map(tuple), finish_reason=st.none() | TEXT
)


def write_json(value: Any) -> str:
    """Return JSON as lenient clients write it: with NaN, large integers and lone surrogates."""
    return json.dumps(value)


class Bench:
    """A harness that lives for many examples, on a loop of its own."""

    def __init__(self, runner: asyncio.Runner, harness: Harness) -> None:
        self._runner = runner
        self._harness = harness
        self._numbers = itertools.count()
        self._memory: int | None = None

    def check(self) -> None:
        """Run twice in a new thread, and once beside it in another one."""
        self._runner.run(self._check(f"t{next(self._numbers)}"))

    async def _check(self, thread_id: str) -> None:
        async with asyncio.timeout(LIMIT_S):
            odd, other = await asyncio.gather(self._run(thread_id, "odd"), self._run(f"{thread_id}-other", "plain"))
            again = await self._run(thread_id, "plain")
        for events in (odd, other, again):
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            assert [event.event for event in events].count("end") == 1 and events[-1].event == "end"
            for event in events:
                orjson.loads(event.data)
        runs = await self._harness.runs.list_by_thread(thread_id, LOCAL_USER)
        assert all(run.status.is_final for run in runs) and len(runs) == 2
        assert orjson.loads((await self._harness.threads.state(thread_id, LOCAL_USER)).values)["messages"]
        self._check_memory()

    async def _run(self, thread_id: str, text: str) -> Sequence[RunEvent]:
        request = RunRequest(thread_id, [{"type": "human", "content": text}])
        run = await self._harness.runs.create_or_reject(request, LOCAL_USER)
        return [event async for group in self._harness.runs.listen(run) for event in group]

    def _check_memory(self) -> None:
        used = psutil.Process().memory_info().rss
        self._memory = self._memory or used
        assert used - self._memory < MAX_GROWTH


def last_text(messages: Sequence[BaseMessage]) -> str:
    """Return the last message of the user."""
    return next(message.text for message in reversed(messages) if message.text in ("odd", "plain"))


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.mark.slow
def test_any_reply_of_a_model_is_recorded(tmp_path_factory: pytest.TempPathFactory, runner: asyncio.Runner) -> None:
    replies: list[Answer] = []

    def line(messages: Sequence[BaseMessage]) -> Answer | str:
        model._script.append(line)
        model.requests.clear()  # the growth of the server is measured
        return replies.pop() if last_text(messages) == "odd" and replies else "Done."

    model = ScriptedModel.saying(line)
    home = tmp_path_factory.mktemp("fuzz")
    stack = AsyncExitStack()
    source = open_source(directory=home, environment={}, overrides={**QUIET, **TOOLS})
    bench = Bench(runner, runner.run(stack.enter_async_context(open_harness(source, model))))

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), database=None)
    @given(REPLIES)
    def check(reply: Answer) -> None:
        replies[:] = [reply]
        bench.check()

    try:
        check()
    finally:
        runner.run(stack.aclose())


def event(content: bytes) -> bytes:
    return b"data: " + content + b"\n\n"


CHOICES = st.dictionaries(
    st.sampled_from(["delta", "message", "finish_reason", "index", "usage"]),
    st.dictionaries(st.sampled_from(["content", "tool_calls", "reasoning_content", "role"]), VALUES, max_size=3)
    | VALUES,
    max_size=3,
)
EVENTS = st.builds(
    lambda choices: event(write_json({"choices": choices}).encode()), st.lists(CHOICES, max_size=2) | VALUES
)
CHUNKS = st.one_of(
    st.binary(max_size=60),
    EVENTS,
    st.binary(max_size=30).map(event),
    VALUES.map(lambda value: event(write_json(value).encode())),
    st.just(event(b'{"choices":[{"delta":{"content":"Hello"}}]}')),
    st.just(event(b'{"choices":[{"delta":{},"finish_reason":"stop"}]}')),
    st.just(b"data: [DONE]\n\n"),
)


@pytest.mark.slow
def test_any_bytes_of_an_endpoint_end_the_run(tmp_path_factory: pytest.TempPathFactory, runner: asyncio.Runner) -> None:
    odd: list[Raw] = []

    def turn(request: Any) -> Raw | str:
        server.requests.clear()  # the growth of the server is measured
        texts = [message["content"] for message in request.messages if message["role"] == "user"]
        return odd[0] if str(texts[-1]).endswith("odd") and odd else "Done."

    stack = AsyncExitStack()
    server = runner.run(stack.enter_async_context(ScriptedServer([turn], endless=True)))
    model = server.model_config().model_dump(mode="json", exclude_none=True)
    retries = {"llm_call": {"retry_max_attempts": 1}}
    home: Path = tmp_path_factory.mktemp("fuzz")
    source = open_source(directory=home, environment={}, overrides={**QUIET, **TOOLS, **retries, "models": [model]})
    bench = Bench(runner, runner.run(stack.enter_async_context(open_harness(source))))

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), database=None)
    @given(st.lists(CHUNKS, min_size=1, max_size=6), st.sampled_from([200, 200, 200, 400, 429, 500, 503]))
    def check(chunks: list[bytes], status: int) -> None:
        odd[:] = [Raw(tuple(chunks), status=status)]
        bench.check()

    try:
        check()
    finally:
        runner.run(stack.aclose())
