"""Values that JSON or MessagePack cannot represent: they are recorded, and other runs are not affected."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from langchain_core.messages import BaseMessage

from deerflow.config.source import ConfigSource, open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunEvent, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.testing import Answer, ScriptedModel
from deerflow.testing.turns import ToolRequest

LARGE = 2**70
ARGUMENTS = {
    "an integer above 64 bits": f'{{"value": {LARGE}}}',
    "a negative one": f'{{"value": {-LARGE}}}',
    "as a key": f'{{"value": {{"{LARGE}": {LARGE}}}}}',
    "300 nested lists": f'{{"value": {"[" * 300}{"]" * 300}}}',
    "half a surrogate pair": '{"value": "half \\ud800"}',
    "NaN and infinity": '{"value": [NaN, Infinity, -Infinity]}',
    "NUL": '{"value": "a\\u0000b"}',
    "an integer of 5000 digits": f'{{"value": {"9" * 5000}}}',
}


def deep_objects(depth: int) -> str:
    return '{"value":' + '{"a":' * depth + "1" + "}" * depth + "}"


ARGUMENTS["900 nested objects"] = deep_objects(900)
ARGUMENTS["100,000 nested objects"] = deep_objects(100_000)


async def echo(value: Any = None) -> Any:
    """Return the value."""
    return value


async def overflow() -> Any:
    """Return values that cannot be stored."""
    return [LARGE, "half \ud800", json.loads("[" * 300 + "]" * 300), {"a": LARGE}]


def settings() -> dict[str, Any]:
    tools = [
        {"name": name, "group": "test", "use": f"tests.runtime.test_unusual_values:{name}"}
        for name in ("echo", "overflow")
    ]
    return {"tools": tools, "memory": {"enabled": False}, "title": {"enabled": False}}


def open_source_with_tools(home: Path) -> ConfigSource:
    return open_source(directory=home, environment={}, overrides=settings())


async def run(harness: Harness, thread_id: str = "t", text: str = "Go on") -> tuple[RunStatus, Sequence[RunEvent]]:
    """Return the status and the events of a run, read while it goes on."""
    request = RunRequest(thread_id, [{"type": "human", "content": text}])
    started = await harness.runs.create_or_reject(request, LOCAL_USER)
    async with asyncio.timeout(30):
        events = [event async for group in harness.runs.listen(started) for event in group]
        ended = await harness.runs.join(thread_id, started.run_id, LOCAL_USER)
    return ended.status, events


async def state_messages(harness: Harness) -> list[dict[str, Any]]:
    values = orjson.loads((await harness.threads.state("t", LOCAL_USER)).values)
    messages: list[dict[str, Any]] = values["messages"]
    return messages


def assert_complete(events: Sequence[RunEvent]) -> None:
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events[-1].event == "end"
    for event in events:
        orjson.loads(event.data)


@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS.keys())
async def test_arguments_of_a_tool_call_are_recorded_and_the_thread_continues(tmp_path: Path, arguments: str) -> None:
    call = Answer(calls=(ToolRequest("echo", arguments),))
    model = ScriptedModel.saying(call, "First.", "Second.")
    async with open_harness(open_source_with_tools(tmp_path), model) as harness:
        status, events = await run(harness)
        assert status is RunStatus.SUCCESS
        assert_complete(events)
        assert (await run(harness))[0] is RunStatus.SUCCESS
        assert [message["content"] for message in await state_messages(harness)][-3:] == ["First.", "Go on", "Second."]
    async with open_harness(open_source_with_tools(tmp_path), ScriptedModel.saying("Third.")) as harness:
        assert (await run(harness))[0] is RunStatus.SUCCESS


async def test_results_of_a_tool_are_recorded(tmp_path: Path) -> None:
    model = ScriptedModel.saying(Answer(calls=(ToolRequest("overflow"),)), "Done.")
    async with open_harness(open_source_with_tools(tmp_path), model) as harness:
        status, events = await run(harness)
        assert status is RunStatus.SUCCESS
        assert_complete(events)
        result = next(message for message in await state_messages(harness) if message["type"] == "tool")
        assert str(LARGE) in str(result["content"])


async def test_text_with_half_a_surrogate_pair_is_recorded(tmp_path: Path) -> None:
    model = ScriptedModel.saying(Answer(("half ", "\ud83d", " pair")), "Second.")
    async with open_harness(open_source_with_tools(tmp_path), model) as harness:
        status, events = await run(harness)
        assert status is RunStatus.SUCCESS
        assert_complete(events)
        assert (await state_messages(harness))[-1]["content"] == "half ? pair"
        assert (await run(harness))[0] is RunStatus.SUCCESS


async def test_other_runs_stream_as_before(tmp_path: Path) -> None:
    odd = [Answer(calls=(ToolRequest("echo", text),)) for text in ARGUMENTS.values()]
    lines = iter([*odd, "Done."])

    def reply(messages: Sequence[BaseMessage]) -> Answer | str:
        is_other = any(message.text == "Go on, other" for message in messages)
        return " ".join(["word"] * 50) if is_other else next(lines)

    model = ScriptedModel.saying(*([reply] * (len(odd) + 4)))
    async with open_harness(open_source_with_tools(tmp_path), model) as harness:
        runs = [run(harness, "t"), *(run(harness, f"other-{number}", "Go on, other") for number in range(3))]
        for status, events in await asyncio.gather(*runs):
            assert status is RunStatus.SUCCESS
            assert_complete(events)
