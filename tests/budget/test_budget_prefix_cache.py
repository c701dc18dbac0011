"""Prefix cache: each request is compared with the one before, and what breaks the prefix is named."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from deerflow.agent_support.replies import Request, append_hidden_message
from deerflow.agent_support.tokens import clip_message, count_message_tokens
from deerflow.agents import Prev
from deerflow.budget.middleware import MeteringMiddleware
from deerflow.budget.model_calls import ConversationPrefix, SentRequests, describe_message, describe_tools
from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunEvent, RunRecord, RunRequest
from deerflow.domain.usage import LEAD_AGENT, SUBAGENT, PrefixBreak, PrefixCacheUsage, Prompt, RequestPrefix
from deerflow.harness import Harness, open_harness
from deerflow.models.factory import ENTRY_KEY
from deerflow.runtime.runs.records import add_prefix
from deerflow.testing import Answer, ScriptedModel, Stall, Usage, calling
from tests.runtime.support import wait_for_text
from tests.subagents.support import build_request as build_task_request
from tests.subagents.support import call_task, count_tool_results, create_agents_model
from tests.subagents.support import finish_run as finish_task_run

SETTINGS: dict[str, Any] = {"sandbox": {"toolbox": {"enabled": False}}}
LOOK = calling("ls", description="look", path="/mnt/user-data/workspace")
Change = Callable[[int, Request], Request]


@Prev(MeteringMiddleware)
class ChangeRequests(AgentMiddleware[Any, Any, Any]):
    """Middleware that changes requests by their number."""

    def __init__(self, change: Change) -> None:
        super().__init__()
        self._change = change
        self._count = 0

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        self._count += 1
        return await handler(self._change(self._count, request))


def open_project(home: Path, model: ScriptedModel, change: Change | None = None, **sections: Any) -> Any:
    source = open_source(directory=home, environment={}, overrides={**SETTINGS, **sections})
    return open_harness(source, model, extra_middleware=[ChangeRequests(change)] if change else ())


async def finish_run(harness: Harness, text: str = "Go on", **more: Any) -> RunRecord:
    run = await harness.runs.create_or_reject(RunRequest("t", [{"type": "human", "content": text}], **more), LOCAL_USER)
    async with asyncio.timeout(20):
        return await harness.runs.join("t", run.run_id, LOCAL_USER)


async def read_prefixes(harness: Harness, run: RunRecord) -> list[RequestPrefix]:
    page = await harness.timeline.page(run, 0, 1000, ["usage"])
    stored = [orjson.loads(logged.event.data) for logged in page]
    return [RequestPrefix.from_stored(data["prefix"]) for data in stored if "prefix" in data]


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "prefix cache" in record.getMessage()]


async def test_tools_that_change_in_a_run_break_the_prefix_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def drop_tool(number: int, request: Request) -> Request:
        return request.override(tools=request.tools[number % 2 :])

    model = ScriptedModel.saying(LOOK, LOOK, LOOK, "Done.")
    with caplog.at_level(logging.WARNING):
        async with open_project(tmp_path, model, drop_tool, loop_detection={"enabled": False}) as harness:
            run = await finish_run(harness)
            cache = await harness.resources.usage.get_prefix_cache(run)
    dropped = (set(model.requests[1].tool_names) - set(model.requests[0].tool_names)).pop()
    assert [(each.request, each.broken.segment, each.broken.cause) for each in cache.breaks] == [
        (2, "tools", "changed"),
        (3, "tools", "changed"),
        (4, "tools", "changed"),
    ]
    first = cache.breaks[0]
    assert first.caller == LEAD_AGENT and first.broken.name == dropped and first.broken.lost_tokens > 1000
    assert cache.prefix_fraction == 0
    (warning,) = warnings_in(caplog)
    assert f"run {run.run_id}: tools ({dropped}) changed" in warning and str(first.broken.lost_tokens) in warning


async def test_a_system_prompt_with_memory_in_it_breaks_the_prefix(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def inject(number: int, request: Request) -> Request:
        facts = f"{request.system_message.text if request.system_message else ''}\nFacts: {number}"
        return request.override(system_message=SystemMessage(facts))

    with caplog.at_level(logging.WARNING):
        async with open_project(tmp_path, ScriptedModel.saying(LOOK, "Done."), inject) as harness:
            run = await finish_run(harness)
            cache = await harness.resources.usage.get_prefix_cache(run)
    (broken,) = [each.broken for each in cache.breaks]
    assert (broken.segment, broken.cause, broken.position) == ("system_prompt", "changed", None)
    # The tools come before the system prompt and are still covered.
    assert cache.prefix_fraction is not None and 0.1 < cache.prefix_fraction < 0.9
    assert len(warnings_in(caplog)) == 1 and "system prompt changed" in warnings_in(caplog)[0]


async def test_a_rewritten_tool_result_is_named_with_its_tool(tmp_path: Path) -> None:
    def rewrite(number: int, request: Request) -> Request:
        old = next((each for each in request.messages if isinstance(each, ToolMessage)), None)
        new = old.model_copy(update={"content": f"rewritten {number}"}) if old else None
        return request.override(messages=[new if new and each is old else each for each in request.messages])

    async with open_project(tmp_path, ScriptedModel.saying(LOOK, LOOK, "Done."), rewrite) as harness:
        (broken,) = [
            each.broken for each in (await harness.resources.usage.get_prefix_cache(await finish_run(harness))).breaks
        ]
    assert (broken.segment, broken.cause, broken.role, broken.name) == ("message", "changed", "tool", "ls")
    assert broken.lost_tokens > 0 and str(broken) == f"message {broken.position} (tool result of ls)"


async def test_a_note_at_the_end_of_one_request_is_no_break(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def remind(number: int, request: Request) -> Request:
        return append_hidden_message(request, f"Reminder {number}.")

    async with open_project(tmp_path, ScriptedModel.saying(LOOK, "Done.", "Again."), remind) as harness:
        runs = [await finish_run(harness), await finish_run(harness)]
        caches = [await harness.resources.usage.get_prefix_cache(run) for run in runs]
    assert [cache.breaks for cache in caches] == [[], []] and not warnings_in(caplog)


async def test_compaction_is_named_and_not_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shortened = {"trigger": [{"type": "messages", "value": 14}], "keep": {"type": "messages", "value": 2}}
    model = ScriptedModel.saying(*[f"Answer {number}" for number in range(14)])
    with caplog.at_level(logging.WARNING):
        async with open_project(tmp_path, model, summarization=shortened) as harness:
            runs = [await finish_run(harness, f"Question {number}") for number in range(9)]
            caches = [await harness.resources.usage.get_prefix_cache(run) for run in runs]
    found = [each.broken for cache in caches for each in cache.breaks]
    assert found and {(each.segment, each.cause, each.position) for each in found} == {("message", "compacted", 1)}
    assert not warnings_in(caplog)


async def test_an_edited_message_is_named_and_not_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_project(tmp_path, ScriptedModel.saying("One.", "Two.", "Three.")) as harness:
        await finish_run(harness, "First")
        await finish_run(harness, "Second")
        history = await harness.threads.history("t", LOCAL_USER, 50)
        at = next(state.checkpoint_id for state in history if len(orjson.loads(state.values)["messages"]) == 2)
        run = await finish_run(harness, "Second, edited", checkpoint_id=at)
        (found,) = (await harness.resources.usage.get_prefix_cache(run)).breaks
    assert (found.broken.segment, found.broken.cause, found.broken.role) == ("message", "edited", "human")
    assert not warnings_in(caplog)


async def test_another_model_shares_no_prefix(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = ScriptedModel.saying(LOOK, "Done.")
    other = ScriptedModel.saying("Done.")
    other.metadata = {ENTRY_KEY: "other"}

    def choose(number: int, request: Request) -> Request:
        return request.override(model=other) if number == 2 else request

    async with open_project(tmp_path, model, choose) as harness:
        run = await finish_run(harness)
        cache = await harness.resources.usage.get_prefix_cache(run)
    assert [str(each.broken) for each in cache.breaks] == ["model (other)"]
    assert cache.prefix_tokens == 0 and cache.breaks[0].broken.lost_tokens > 1000 and not warnings_in(caplog)


async def test_lead_agent_and_subagents_are_compared_separately(tmp_path: Path) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        return "Written." if count_tool_results(messages) else LOOK

    model = create_agents_model([call_task("One."), call_task("Two."), "Done."], work)
    source = open_source(directory=tmp_path, environment={}, overrides=SETTINGS)
    async with open_harness(source, model) as harness:
        run = await harness.runs.create_or_reject(build_task_request("go"), LOCAL_USER)
        await finish_task_run(harness, run)
        cache = await harness.resources.usage.get_prefix_cache(run)
        page = await harness.timeline.page(run, 0, 1000, ["usage"])
    stored = [orjson.loads(logged.event.data) for logged in page]
    known = [(data["caller"], data["prefix"]["prefix_tokens"] is not None) for data in stored]
    subagent = [(SUBAGENT, False), (SUBAGENT, True)]
    assert known == [(LEAD_AGENT, False), *subagent, (LEAD_AGENT, True), *subagent, (LEAD_AGENT, True)]
    assert cache.requests == 7 and not cache.breaks
    assert cache.prefix_fraction is not None and cache.prefix_fraction > 0.9


async def test_the_first_request_after_a_restart_is_unknown(tmp_path: Path) -> None:
    async with asyncio.timeout(30):
        async with open_project(tmp_path, ScriptedModel.saying("One.", Stall(Answer("Half")))) as harness:
            await finish_run(harness)
            run = await harness.runs.create_or_reject(RunRequest("t", [{"type": "human", "content": "Go"}]), LOCAL_USER)
            await wait_for_text(harness, run, "Half")
        async with open_project(tmp_path, ScriptedModel.saying(LOOK, "Whole.", "Next.")) as harness:
            run = await harness.runs.join("t", run.run_id, LOCAL_USER)
            first, second, third = await read_prefixes(harness, run)
            cache = await harness.resources.usage.get_prefix_cache(run)
            (following,) = await read_prefixes(harness, await finish_run(harness))
    # The cancelled request was compared with the one of the first run, the resumed one with nothing.
    assert first.prefix_tokens is not None and second.prefix_tokens is None and third.prefix_tokens is not None
    assert cache.requests == 3 and cache.prompt_tokens == first.prompt_tokens + third.prompt_tokens
    assert not cache.breaks and following.prefix_tokens == third.prompt_tokens


async def test_a_provider_without_cached_tokens_reports_none(tmp_path: Path) -> None:
    model = ScriptedModel.saying(Answer("Hi.", usage=Usage(100, 5)), ValueError("down"))
    async with open_project(tmp_path, model) as harness:
        cache = await harness.resources.usage.get_prefix_cache(await finish_run(harness))
        failed = await harness.resources.usage.get_prefix_cache(await finish_run(harness))
    assert (cache.input_tokens, cache.cached_tokens, cache.cached_fraction) == (100, 0, 0)
    assert cache.prefix_fraction is None  # the first request of a thread has none before it
    assert failed.cached_fraction is None and failed.prefix_fraction is not None


async def test_cached_tokens_never_exceed_the_input_tokens(tmp_path: Path) -> None:
    model = ScriptedModel.saying(Answer("Hi.", usage=Usage(100, 5, cached_tokens=900)))
    async with open_project(tmp_path, model) as harness:
        cache = await harness.resources.usage.get_prefix_cache(await finish_run(harness))
    assert (cache.cached_tokens, cache.cached_fraction) == (100, 1)


def test_calls_that_an_earlier_version_recorded_are_left_out() -> None:
    data = {"caller": LEAD_AGENT, "model": "m", "message_id": None, "counts": {"calls": 1, "input_tokens": 5}}
    empty = PrefixCacheUsage()
    assert add_prefix(empty, RunEvent(1, "usage", orjson.dumps(data))) is empty
    assert empty.prefix_fraction is None and empty.cached_fraction is None


NO_TOOLS = describe_tools([])


def build_prompt(*messages: BaseMessage, **more: Any) -> Prompt:
    return Prompt(**{"model": "m", "tools": NO_TOOLS, "system": SystemMessage("Rules"), "messages": messages, **more})


def test_tools_and_skills_that_the_agent_loads_are_named(caplog: pytest.LogCaptureFixture) -> None:
    prefix = ConversationPrefix("run", SentRequests(), "t")
    prefix.compare(build_prompt(HumanMessage("Hi")))
    loaded = describe_tools([{"name": "wiki", "description": "Read", "parameters": {"type": "object"}}])
    prompt = build_prompt(HumanMessage("Hi"), tools=loaded, loaded=frozenset({"wiki"}))
    resent = [count_message_tokens(message) for message in (prompt.system, *prompt.messages)]
    broken = PrefixBreak("tools", "loaded", NO_TOOLS.tokens + sum(resent), name="wiki")
    assert prefix.compare(prompt) == RequestPrefix(loaded.tokens + sum(resent), 0, broken)
    assert not caplog.records


def test_messages_clipped_to_the_window_count_as_compacted(caplog: pytest.LogCaptureFixture) -> None:
    prefix, long, answer = ConversationPrefix("run", SentRequests(), "t"), HumanMessage("long " * 999), AIMessage("Ho")
    prefix.compare(build_prompt(long, answer))
    broken = prefix.compare(build_prompt(clip_message(long, 50), answer)).broken
    assert broken == PrefixBreak("message", "compacted", count_message_tokens(answer), 1, "human")
    assert not caplog.records


def test_a_shorter_request_is_covered_completely() -> None:
    prefix, messages = ConversationPrefix("run", SentRequests(), "t"), [HumanMessage("Hi"), AIMessage("Ho")]
    prefix.compare(build_prompt(*messages))
    compared = prefix.compare(build_prompt(*messages[:1]))
    assert compared.broken is None and compared.prefix_tokens == compared.prompt_tokens


def test_the_least_recently_used_conversations_are_dropped() -> None:
    sent = SentRequests(limit=2)
    trackers = [ConversationPrefix("run", sent, name) for name in "abc"]
    for tracker in (trackers[0], trackers[1], trackers[0], trackers[2]):
        tracker.compare(build_prompt(HumanMessage("Hi")))
    known = [tracker.compare(build_prompt(HumanMessage("Hi"))).prefix_tokens is not None for tracker in trackers]
    assert known == [True, False, False]  # comparing the second has dropped the third


def test_equal_messages_have_equal_hashes_and_notes_of_the_harness_do_not_count() -> None:
    call: Any = {"name": "ls", "args": {"path": "/"}, "id": "1", "type": "tool_call"}
    one = AIMessage("Hi", id="1", tool_calls=[call])
    noted = AIMessage("Hi", id="2", tool_calls=[call], additional_kwargs={"told_day": "2026-01-01"})
    thought = AIMessage("Hi", id="1", tool_calls=[call], additional_kwargs={"reasoning_content": "Hm"})
    other = AIMessage("Hi", id="1", tool_calls=[{**call, "args": {"path": "/mnt"}}])
    hashes = [describe_message(message)[1] for message in (one, noted, thought, other)]
    assert hashes[0] == hashes[1] and len(set(hashes)) == 3


def test_content_that_is_no_json_is_compared_as_text() -> None:
    odd = [HumanMessage("half \ud800"), HumanMessage("half \udbff")]
    one, same, other = (describe_message(message)[1] for message in (odd[0], HumanMessage("half \ud800"), odd[1]))
    assert one == same != other


def test_a_message_object_is_hashed_once() -> None:
    prefix, messages = ConversationPrefix("run", SentRequests(), "t"), [HumanMessage("Hi"), AIMessage("Ho")]
    prefix.compare(build_prompt(*messages))
    messages[0].content = "Changed in place, which nothing in the harness does"
    assert prefix.compare(build_prompt(*messages)).broken is None
    assert prefix.compare(build_prompt(messages[0].model_copy(), messages[1])).broken is not None
