"""Arbitrary requests, replies of models and bytes of endpoints: every run ends once, and nothing else is affected.

Together 500 examples in `make test`; `make test-nightly` tries 20,000 of each kind, a quarter of them on PostgreSQL.
"""

import asyncio
import gc
import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import httpx
import orjson
import psutil
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunEvent, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.persistence.engine.database import DatabaseLocation
from deerflow.testing import Answer, ScriptedModel, ScriptedServer
from deerflow.testing.turns import Raw, ToolRequest
from tests.support import browse

EXAMPLES = max(168, settings().max_examples)
MAX_BATCH = 250
"""Examples of one search. Hypothesis remembers all of them until it ends, which is no memory of the server."""
SLACK_BYTES, BYTES_PER_EXAMPLE = 24 * 2**20, 16 * 2**10
"""Allowed growth: at most 16 MiB per 1,000 examples, besides what the allocator keeps."""
LIMIT_S = 60
Check = Callable[[Any], None]
QUIET: dict[str, Any] = {"memory": {"enabled": False}, "title": {"enabled": False}, "log_level": "error"}
TOOLS = {"tools": [{"name": "echo", "group": "test", "use": "tests.runtime.test_unusual_values:echo"}]}
ODD, PLAIN, BESIDE = "odd", "plain", "beside"
DONE = "Done."
WORDS = tuple(f"word{number} " for number in range(12))
BUSY = Answer(WORDS, delay_s=0.001)

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


def write_json(value: Any) -> str:
    """Return JSON as lenient clients write it: with NaN, large integers and lone surrogates."""
    return json.dumps(value)


class Bench:
    """A harness that lives for many examples, on a loop of its own."""

    def __init__(self, runner: asyncio.Runner, harness: Harness) -> None:
        self._runner = runner
        self._harness = harness
        self._numbers = itertools.count()

    def check(self, act: "Callable[[str], Any] | None" = None) -> None:
        """Do something odd in a new thread while another one is busy, then send the next message."""
        self._runner.run(self._check(f"t{next(self._numbers)}", act or self._run_odd))

    async def _check(self, thread_id: str, act: Callable[[str], Any]) -> None:
        beside = f"{thread_id}-beside"
        async with asyncio.timeout(LIMIT_S):
            _, other = await asyncio.gather(act(thread_id), self._run(beside, BESIDE))
            for run in await self._harness.runs.list_by_thread(thread_id, LOCAL_USER, limit=100):
                await self._read(run.thread_id, run.run_id)  # of some the response came before they ended
            again = await self._run(thread_id, PLAIN)
            runs = await self._harness.runs.list_by_thread(thread_id, LOCAL_USER, limit=100)
            logs = [await self._read(run.thread_id, run.run_id) for run in runs]
        for events in (*logs, other, again):
            assert_complete(events)
        assert all(run.status.is_final for run in runs)
        await self._assert_answered(beside, other, "".join(WORDS))
        await self._assert_answered(thread_id, again, DONE)

    async def _assert_answered(self, thread_id: str, events: Sequence[RunEvent], text: str) -> None:
        """Check that the latest run of a thread succeeded, and that its text was streamed and is in the state."""
        (run,) = await self._harness.runs.list_by_thread(thread_id, LOCAL_USER, limit=1)
        assert run.status is RunStatus.SUCCESS, run.error
        assert streamed_text(events) == text
        messages = orjson.loads((await self._harness.threads.state(thread_id, LOCAL_USER)).values)["messages"]
        assert messages[-1]["content"] == text

    async def _run_odd(self, thread_id: str) -> None:
        await self._run(thread_id, ODD)

    async def _run(self, thread_id: str, text: str) -> Sequence[RunEvent]:
        request = RunRequest(thread_id, [{"type": "human", "content": text}])
        run = await self._harness.runs.create_or_reject(request, LOCAL_USER)
        return [event async for group in self._harness.runs.listen(run) for event in group]

    async def _read(self, thread_id: str, run_id: str) -> Sequence[RunEvent]:
        run = await self._harness.runs.join(thread_id, run_id, LOCAL_USER)
        return [event async for group in self._harness.runs.listen(run) for event in group]

    def try_examples(self, place: DatabaseLocation, strategy: st.SearchStrategy[Any], check: Check) -> None:
        """Check examples in batches. After the first one imports are done and caches filled."""
        total = EXAMPLES // 4 if isinstance(place, str) else EXAMPLES - EXAMPLES // 4
        size = min(MAX_BATCH, total // 3)
        random = Random(0 if settings().derandomize else None)
        options = settings(max_examples=size, suppress_health_check=list(HealthCheck), database=None)
        baseline: int | None = None
        for begun in range(0, total, size):
            seed(random.getrandbits(64))(options(given(strategy)(check)))()
            gc.collect()
            used = psutil.Process().memory_info().rss
            baseline = baseline or used
            assert used - baseline < SLACK_BYTES + begun * BYTES_PER_EXAMPLE


def assert_complete(events: Sequence[RunEvent]) -> None:
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [event.event for event in events].count("end") == 1 and events[-1].event == "end"
    for event in events:
        orjson.loads(event.data)


def streamed_text(events: Sequence[RunEvent]) -> str:
    return "".join(orjson.loads(event.data)[0]["content"] for event in events if event.event == "messages")


def last_text(messages: Sequence[BaseMessage]) -> str:
    """Return the last message of the user."""
    return next((each.text for each in reversed(messages) if each.text in (ODD, PLAIN, BESIDE)), PLAIN)


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def stack(runner: asyncio.Runner) -> Iterator[AsyncExitStack]:
    stack = AsyncExitStack()
    yield stack
    runner.run(stack.aclose())


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


def script_model(replies: list[Answer]) -> ScriptedModel:
    """Return a model that gives one of `replies` to an odd message, and an ordinary answer to others."""

    def line(messages: Sequence[BaseMessage]) -> Answer | str:
        model._script.append(line)
        model.requests.clear()  # the growth of the server is measured
        text = last_text(messages)
        if text == BESIDE:
            return BUSY
        return replies.pop() if text == ODD and replies else DONE

    model = ScriptedModel.saying(line)
    return model


@pytest.mark.slow
def test_any_reply_of_a_model_is_recorded(
    tmp_path: Path, database_location: DatabaseLocation, runner: asyncio.Runner, stack: AsyncExitStack
) -> None:
    replies: list[Answer] = []
    source = open_source(directory=tmp_path, environment={}, overrides={**QUIET, **TOOLS})
    harness = runner.run(stack.enter_async_context(open_harness(source, script_model(replies))))
    bench = Bench(runner, harness)

    def check(reply: Answer) -> None:
        replies[:] = [reply]
        bench.check()
        assert not replies  # the model has given it

    bench.try_examples(database_location, REPLIES, check)


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
RESPONSES = st.builds(
    lambda chunks, status: Raw(tuple(chunks), status=status),
    st.lists(CHUNKS, min_size=1, max_size=6),
    st.sampled_from([200, 200, 200, 400, 429, 500, 503]),
)


@pytest.mark.slow
def test_any_bytes_of_an_endpoint_end_the_run(
    tmp_path: Path, database_location: DatabaseLocation, runner: asyncio.Runner, stack: AsyncExitStack
) -> None:
    odd: list[Raw] = []
    served: list[bool] = []

    def turn(request: Any) -> Raw | Answer | str:
        server.requests.clear()  # the growth of the server is measured
        said = [str(message["content"]) for message in request.messages if message["role"] == "user"]
        text = re.findall(rf"\b({ODD}|{PLAIN}|{BESIDE})\b", "\n".join(said))[-1]  # the date is a message as well
        if text == BESIDE:
            return BUSY
        served.append(text == ODD)
        return odd[0] if text == ODD else DONE

    server = runner.run(stack.enter_async_context(ScriptedServer([turn], endless=True)))
    model = server.model_config().model_dump(mode="json", exclude_none=True)
    retries = {"llm_call": {"retry_max_attempts": 1}}
    source = open_source(directory=tmp_path, environment={}, overrides={**QUIET, **TOOLS, **retries, "models": [model]})
    bench = Bench(runner, runner.run(stack.enter_async_context(open_harness(source))))

    def check(response: Raw) -> None:
        odd[:] = [response]
        served.clear()
        bench.check()
        assert served[0] and not served[-1]

    bench.try_examples(database_location, RESPONSES, check)


def some_of(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return objects with some of the fields, each as described or arbitrary, and sometimes another one."""
    known = st.fixed_dictionaries({}, optional={name: value | VALUES for name, value in fields.items()})
    return known | known | st.builds(lambda some, key, value: {**some, key: value}, known, TEXT, VALUES)


NODES = st.sampled_from(["*", "model", "tools", "__start__", "__end__", "none"])
IDS = st.sampled_from(["a", "b", "", "lc_run--1"]) | TEXT
CALL = some_of(name=st.sampled_from(["echo", "none"]), args=some_of(value=VALUES), id=IDS, type=st.just("tool_call"))
MESSAGE = some_of(
    type=st.sampled_from(["human", "ai", "system", "tool", "remove", "function", "chat", "AIMessageChunk", "none"]),
    role=st.sampled_from(["user", "assistant", "system", "tool", "none"]),
    content=TEXT | st.just(ODD) | st.lists(some_of(type=st.sampled_from(["text", "image_url"]), text=TEXT), max_size=2),
    id=IDS,
    name=TEXT,
    tool_calls=st.lists(CALL, max_size=2),
    tool_call_id=IDS,
    additional_kwargs=some_of(reasoning_content=TEXT, files=VALUES),
    response_metadata=VALUES,
    usage_metadata=some_of(input_tokens=NUMBERS, output_tokens=NUMBERS, total_tokens=NUMBERS),
)
HUMAN = st.just({"type": "human", "content": ODD})
MESSAGES = st.lists(HUMAN | MESSAGE, max_size=3)
STATE = some_of(
    messages=MESSAGES,
    title=TEXT,
    artifacts=st.lists(TEXT, max_size=2),
    todos=st.lists(some_of(content=TEXT, status=st.sampled_from(["pending", "completed"])), max_size=2),
    promoted=st.dictionaries(TEXT, TEXT, max_size=2),
    untrusted=st.lists(TEXT, max_size=2),
    viewed_images=st.dictionaries(TEXT, some_of(mime_type=TEXT, size=NUMBERS), max_size=2),
    skill_context=st.lists(some_of(name=TEXT, path=TEXT, description=TEXT, loaded_at=TEXT, run_id=TEXT), max_size=2),
    uploaded_files=st.lists(some_of(filename=TEXT), max_size=2),
    sandbox=some_of(sandbox_id=TEXT),
    thread_data=some_of(workspace_path=TEXT),
    jump_to=NODES,
)
CONTEXT = some_of(model_name=TEXT, is_plan_mode=st.booleans(), agent_name=TEXT, budget=some_of(max_tokens=NUMBERS))
RUN_OPTIONS = {
    "context": CONTEXT,
    "config": some_of(recursion_limit=st.integers(1, 1000), configurable=CONTEXT),
    "metadata": st.dictionaries(TEXT, VALUES, max_size=2),
    "checkpoint_id": TEXT,
    "checkpoint": some_of(checkpoint_id=TEXT, checkpoint_ns=st.just("")),
    "interrupt_before": NODES | st.lists(NODES, max_size=2),
    "interrupt_after": NODES | st.lists(NODES, max_size=2),
    "stream_mode": st.lists(
        st.sampled_from(["values", "messages", "messages-tuple", "updates", "custom", "debug", "tasks", "checkpoints"]),
        max_size=4,
    ),
    "stream_subgraphs": st.booleans(),
    "on_disconnect": st.sampled_from(["cancel", "continue"]),
    "multitask_strategy": st.sampled_from(["reject", "enqueue", "interrupt", "rollback", "steer"]),
    "if_not_exists": st.sampled_from(["create", "reject"]),
}
COMMAND = some_of(resume=VALUES, update=STATE, goto=NODES | st.lists(NODES, max_size=2))
RUN = (
    some_of(input=some_of(messages=MESSAGES), **RUN_OPTIONS)
    | st.fixed_dictionaries({"input": st.fixed_dictionaries({"messages": MESSAGES})}, optional=RUN_OPTIONS)
    | st.fixed_dictionaries({"command": COMMAND})
    | some_of(command=COMMAND, **RUN_OPTIONS)
)
UPDATE = some_of(values=STATE, as_node=NODES, checkpoint_id=TEXT)


def as_body(content: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    """Return JSON of `content`, complete or cut off, of another value, or arbitrary bytes."""
    whole = content.map(lambda value: write_json(value).encode())
    cut = st.builds(lambda body, end: body[:end], whole, st.integers(0, 200))
    return st.one_of(whole, whole, whole, whole, cut, VALUES.map(lambda value: write_json(value).encode()), st.binary())


RUN_PATHS = st.sampled_from(["runs/stream", "runs/stream", "runs", "runs/wait"])
REQUESTS = st.lists(
    st.tuples(RUN_PATHS, as_body(RUN)) | st.tuples(st.just("state"), as_body(UPDATE)), min_size=1, max_size=3
)


@pytest.mark.slow
def test_any_request_leaves_a_thread_that_works(
    tmp_path: Path, database_location: DatabaseLocation, runner: asyncio.Runner, stack: AsyncExitStack
) -> None:
    replies: list[Answer] = []
    source = open_source(directory=tmp_path, environment={}, overrides={**QUIET, **TOOLS})
    harness = runner.run(stack.enter_async_context(open_harness(source, script_model(replies))))
    http = runner.run(stack.enter_async_context(browse(harness)))
    bench = Bench(runner, harness)

    def check(example: tuple[list[tuple[str, bytes]], list[Answer]]) -> None:
        requests, replies[:] = example[0], example[1]

        async def send_all(thread_id: str) -> None:
            for path, body in requests:
                await send(http, f"/api/langgraph/threads/{thread_id}/{path}", body)

        bench.check(send_all)

    bench.try_examples(database_location, st.tuples(REQUESTS, st.lists(REPLIES, max_size=1)), check)


async def send(http: httpx.AsyncClient, url: str, body: bytes) -> None:
    """Send a request and read the response; one that streams events has to end them once, in order."""
    # Between examples the loop stands still, and the server would close connections that are kept alive.
    headers = {"content-type": "application/json", "connection": "close"}
    async with http.stream("POST", url, content=body, headers=headers) as response:
        content = b"".join([chunk async for chunk in response.aiter_bytes()])
    assert response.status_code < 500, content
    if not response.headers["content-type"].startswith("text/event-stream"):
        orjson.loads(content or b"null")
        return
    fields = [line.partition(b": ") for line in content.split(b"\n") if line]
    names = [value for name, _, value in fields if name == b"event"]
    numbers = [int(value) for name, _, value in fields if name == b"id"]
    assert names.count(b"end") == 1 and names[-1] == b"end"
    assert numbers == sorted(numbers)
    for name, _, value in fields:
        if name == b"data":
            orjson.loads(value)
