"""Execution of delegated tasks, with real runs, a real sandbox and a scripted model."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from langchain_core.messages import BaseMessage
from langchain_core.tools import tool
from langgraph.types import interrupt

from deerflow.domain.errors import ModelRejected
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec, RunRequest, RunStatus
from deerflow.harness import open_harness
from deerflow.testing import Answer, ScriptedModel, calling, in_parallel
from tests.sandbox.processes import find_survivors, make_marker, wait_for_processes
from tests.subagents.support import (
    ROLE,
    build_request,
    call_task,
    call_task_batch,
    count_tool_results,
    create_agents_model,
    finish_run,
    get_prompt,
    open_config,
    read_messages,
    read_results,
    start_run,
)
from tests.support import said


async def test_subagent_shares_the_sandbox_and_returns_only_its_answer(tmp_path: Path) -> None:
    path = "/mnt/user-data/workspace/secret.txt"

    def work(messages: Sequence[BaseMessage]) -> Any:
        return (
            calling("bash", description="look", command=f"cat {path}")
            if not count_tool_results(messages)
            else "It says deer."
        )

    write = calling("write_file", description="note", path=path, content="deer")
    model = create_agents_model([write, call_task(f"What is in {path}?"), "Deer it is."], work)
    async with open_harness(open_config(tmp_path), model) as harness:
        run, events = await finish_run(harness, await start_run(harness, build_request("go")))
        messages = await read_messages(harness)

    requests = [request for request in model.requests if ROLE in request.messages[0].text]
    assert run.status is RunStatus.SUCCESS
    assert said(requests[0].messages) == [f"What is in {path}?"]  # and nothing of the conversation it is for
    assert "deer" in requests[1].messages[-1].text  # the command has read what the lead agent wrote
    assert not {"task", "task_batch", "ask_clarification", "present_files"} & set(requests[0].tool_names)
    assert any("memory" in name for name in model.requests[0].tool_names)
    assert not any("memory" in name for name in requests[0].tool_names)
    assert [message["type"] for message in messages] == ["human", "ai", "tool", "ai", "tool", "ai"]
    result = messages[4]
    assert result["content"] == "Task Succeeded. Result: It says deer."
    assert result["additional_kwargs"]["subagent_status"] == "completed"
    assert result["additional_kwargs"]["subagent_token_usage"]["input_tokens"] == 20
    types = [event["type"] for event in events]
    assert types == ["task_started", "task_running", "task_running", "task_running", "task_completed"]
    assert {event["task_id"] for event in events} == {result["tool_call_id"]}
    assert [event["message"]["type"] for event in events if "message" in event] == ["ai", "tool", "ai"]


async def test_subagent_output_is_not_streamed_as_lead_agent_output(tmp_path: Path) -> None:
    model = create_agents_model([call_task("Sing."), "Heard."], lambda _: "La la la.")
    async with open_harness(open_config(tmp_path), model) as harness:
        run = await start_run(harness, build_request("go"))
        async with asyncio.timeout(30):
            groups = [group async for group in harness.runs.listen(run)]
    pieces = [orjson.loads(event.data)[0] for group in groups for event in group if event.event == "messages"]
    assert "La" not in "".join(piece["content"] for piece in pieces if piece["type"] == "AIMessageChunk")


async def test_tasks_of_one_reply_run_concurrently_up_to_the_limit(tmp_path: Path) -> None:
    working, max_active = set[str](), 0
    met = asyncio.Barrier(2)

    class Meeting(ScriptedModel):
        async def _astream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal max_active
            is_lead = "<subagent_system>" in messages[0].text
            if not is_lead:
                working.add(get_prompt(messages))
                max_active = max(max_active, len(working))
                await met.wait()  # blocks until two tasks run concurrently
            async for chunk in super()._astream(messages, *args, **kwargs):
                yield chunk
            if not is_lead:
                working.discard(get_prompt(messages))

    both = in_parallel(call_task("one"), call_task("two"))
    model = Meeting.saying(
        *create_agents_model([both, both, "All done."], lambda messages: f"Did {get_prompt(messages)}.")._script
    )
    async with open_harness(open_config(tmp_path), model) as harness:
        run, events = await finish_run(
            harness, await start_run(harness, build_request("go", max_concurrent_subagents=2))
        )
    assert run.status is RunStatus.SUCCESS
    assert max_active == 2
    assert [event["result"] for event in events if event["type"] == "task_completed"].count("Did one.") == 2


async def test_failed_task_is_reported_and_others_complete(tmp_path: Path) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        return ModelRejected("the key is wrong") if get_prompt(messages) == "bad" else "Fine."

    model = create_agents_model([in_parallel(call_task("good"), call_task("bad")), "One of two."], work)
    async with open_harness(open_config(tmp_path), model) as harness:
        run, events = await finish_run(harness, await start_run(harness, build_request("go")))
        texts = [message["content"] for message in await read_messages(harness) if message["type"] == "tool"]
    assert run.status is RunStatus.SUCCESS
    assert texts == ["Task Succeeded. Result: Fine.", "Task failed. Error: the key is wrong"]
    assert sorted(event["type"] for event in events)[:2] == ["task_completed", "task_failed"]


async def test_cancelling_a_run_kills_the_command_of_its_subagent(tmp_path: Path) -> None:
    seconds = make_marker()
    model = create_agents_model(
        [call_task("Wait."), "Again."], lambda _: calling("bash", description="wait", command=f"sleep {seconds}")
    )
    async with open_harness(open_config(tmp_path), model) as harness:
        run = await start_run(harness, build_request("go"))
        await wait_for_processes(seconds)
        await harness.runs.cancel("t", run.run_id, LOCAL_USER)
        left = await find_survivors(seconds)
        done, events = await finish_run(harness, run)
        again, _ = await finish_run(harness, await start_run(harness, build_request("and now?")))
    assert left == []
    assert done.status is RunStatus.INTERRUPTED
    assert events[-1]["type"] == "task_cancelled"
    assert again.status is RunStatus.SUCCESS


async def test_subagent_timeout_kills_its_command(tmp_path: Path) -> None:
    seconds = make_marker()
    settings = open_config(tmp_path, subagents={"agents": {"bash": {"timeout_seconds": 0.5}}})
    model = create_agents_model(
        [call_task("Wait.", "bash"), "Too slow."],
        lambda _: calling("bash", description="wait", command=f"sleep {seconds}"),
    )
    async with open_harness(settings, model) as harness:
        run, events = await finish_run(harness, await start_run(harness, build_request("go")))
        text = [message["content"] for message in await read_messages(harness) if message["type"] == "tool"]
    assert run.status is RunStatus.SUCCESS
    assert text == ["Task timed out. Error: it took longer than 0.5 s"]
    assert events[-1]["type"] == "task_timed_out" and 0.5 <= events[-1]["duration_s"] < 1.5
    assert await find_survivors(seconds) == []


async def test_turn_limit_caps_a_subagent_and_keeps_its_partial_answer(tmp_path: Path) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        call = calling("ls", description="look", path=f"/mnt/user-data/workspace/{count_tool_results(messages)}")
        return Answer("Looking on.", calls=call.calls)

    model = create_agents_model([call_task("Look.", max_turns=3), "Enough."], work)
    async with open_harness(open_config(tmp_path), model) as harness:
        _, events = await finish_run(harness, await start_run(harness, build_request("go")))
        text = [message["content"] for message in await read_messages(harness) if message["type"] == "tool"]
    assert text == ["Task stopped: it has taken all of its 3 turns. What it had by then: Looking on."]
    assert events[-1]["stop_reason"] == "turn_capped"


async def test_looping_subagent_is_capped(tmp_path: Path) -> None:
    model = create_agents_model(
        [call_task("Look."), "Enough."], lambda _: calling("ls", description="look", path="/mnt/user-data")
    )
    async with open_harness(open_config(tmp_path), model) as harness:
        _, events = await finish_run(harness, await start_run(harness, build_request("go")))
        (result,) = [message for message in await read_messages(harness) if message["type"] == "tool"]
    assert result["content"].startswith("Task stopped: it was going round in circles.")
    assert result["additional_kwargs"]["subagent_status"] == "capped"
    assert (events[-1]["type"], events[-1]["stop_reason"]) == ("task_completed", "loop_capped")


async def test_model_failure_fails_the_task_and_counts_its_usage(tmp_path: Path) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        look = calling("ls", description="look", path="/mnt/user-data")
        return (
            ModelRejected("the account is closed")
            if count_tool_results(messages)
            else Answer("So far.", calls=look.calls)
        )

    model = create_agents_model([in_parallel(call_task("Look."), call_task(" ")), "Failed."], work)
    async with open_harness(open_config(tmp_path), model) as harness:
        run, events = await finish_run(harness, await start_run(harness, build_request("go")))
        failed, refused = [message for message in await read_messages(harness) if message["type"] == "tool"]
    assert run.status is RunStatus.SUCCESS
    assert failed["content"] == "Task failed. Error: the account is closed"
    assert failed["additional_kwargs"]["subagent_result_brief"] == "So far."
    assert failed["additional_kwargs"]["subagent_token_usage"]["input_tokens"] == 10
    assert events[-1]["type"] == "task_failed" and events[-1]["usage"]["input_tokens"] == 10
    assert "the prompt is empty" in refused["content"]


async def test_logs_unknown_tools_models_and_overrides_of_a_type(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reader = {"description": "Reads.", "system_prompt": ROLE, "tools": ["reed_file", "ls", "task"], "model": "gpt-0"}
    settings = {"custom_agents": {"reader": reader}, "agents": {"raeder": {"max_turns": 3}}}
    model = create_agents_model([call_task("Read.", "reader"), "Done."], lambda _: "Read it.")
    async with open_harness(open_config(tmp_path, subagents=settings), model) as harness:
        run, _ = await finish_run(harness, await start_run(harness, build_request("go")))
    assert run.status is RunStatus.SUCCESS and model.requests[1].tool_names == ["ls"]
    assert "subagent 'reader': unknown tool 'reed_file' is ignored; similar tools: read_file" in caplog.text
    assert "subagents.agents.raeder: unknown subagent type" in caplog.text
    assert "there is no model 'gpt-0'" in caplog.text


async def test_loads_types_from_project_and_home_folders_and_applies_edits_to_the_next_run(
    tmp_path: Path,
) -> None:
    def write(file: str, text: str) -> None:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)

    poet = "---\ndescription: Verses.\ntools: ls, task\n---\n\nYou are a poet."
    write("config.yaml", "log_level: info")
    write("agents/poet.md", poet)
    write(".deer-flow/agents/critic.md", "---\ndescription: Doubts.\n---\nYou doubt.")
    write("agents/broken.md", "You are nobody.")
    model = create_agents_model(
        [call_task("A line.", "poet"), "There.", call_task("One more.", "poet"), "There."], lambda _: "Antlers."
    )
    async with open_harness(open_config(tmp_path), model) as harness:
        run, _ = await finish_run(harness, await start_run(harness, build_request("go")))
        write("agents/poet.md", poet.replace("a poet", "a better poet"))
        await finish_run(harness, await start_run(harness, build_request("again")))
    lead, first, _, _, second, _ = model.requests
    assert run.status is RunStatus.SUCCESS
    assert "- poet: Verses." in lead.messages[0].text and "- critic: Doubts." in lead.messages[0].text
    assert "broken" not in lead.messages[0].text
    assert "You are a poet." in first.messages[0].text and first.tool_names == ["ls"]
    assert "You are a better poet." in second.messages[0].text


async def test_refuses_unknown_type_and_lists_available_types(tmp_path: Path) -> None:
    model = create_agents_model([call_task("Go.", "wizard"), "No wizards here."], lambda _: "never asked")
    async with open_harness(open_config(tmp_path), model) as harness:
        run, events = await finish_run(harness, await start_run(harness, build_request("go")))
        text = next(message["content"] for message in await read_messages(harness) if message["type"] == "tool")
    assert run.status is RunStatus.SUCCESS and events == []
    assert "'general-purpose' or 'bash'" in text


async def test_tools_that_need_approval_are_not_available_to_subagents(tmp_path: Path) -> None:
    entry = {"name": "bash", "group": "bash", "use": "deerflow.sandbox.tools:bash_tool", "approval": "always"}
    model = create_agents_model([call_task("Go."), "Done."], lambda _: "Did what I could.")
    async with open_harness(open_config(tmp_path, tools=[entry]), model) as harness:
        await finish_run(harness, await start_run(harness, build_request("go")))
    lead, subagent = model.requests[0], next(each for each in model.requests if ROLE in each.messages[0].text)
    assert "bash" in lead.tool_names and "bash" not in subagent.tool_names
    # The bash type is not offered either, because all of its tools need approval.
    assert "- general-purpose:" in lead.messages[0].text and "- bash:" not in lead.messages[0].text


async def test_agent_without_commands_has_no_bash_subagent(tmp_path: Path) -> None:
    folder = tmp_path / ".deer-flow/users/local/agents/reader"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text('tool_groups: ["file:read"]\n')
    model = create_agents_model([call_task("Go.", "bash"), call_task("Go."), "Done."], lambda _: "Did what I could.")
    async with open_harness(open_config(tmp_path), model) as harness:
        request = build_request("go", agent_name="reader", owner="local")
        _, events = await finish_run(harness, await start_run(harness, request))
        refused, _ = [message["content"] for message in await read_messages(harness) if message["type"] == "tool"]
    lead, subagent = model.requests[0], next(each for each in model.requests if ROLE in each.messages[0].text)
    assert "- bash:" not in lead.messages[0].text and "Input should be 'general-purpose'" in refused
    assert "read_file" in subagent.tool_names and not {"bash", "write_file"} & set(subagent.tool_names)
    assert "update_agent" in lead.tool_names and "update_agent" not in subagent.tool_names


@pytest.mark.parametrize("is_on", [True, False])
async def test_subagents_require_both_setting_and_request(tmp_path: Path, is_on: bool) -> None:
    model = ScriptedModel.saying("Hello.")
    settings = open_config(tmp_path, subagents={"enabled": is_on})
    async with open_harness(settings, model) as harness:
        spec = AgentSpec(subagent_enabled=not is_on)
        await finish_run(harness, await start_run(harness, RunRequest("t", [{"type": "human", "content": "hi"}], spec)))
    assert "task" not in model.requests[0].tool_names


HALF = "half \ud83d a face"


async def test_lone_surrogates_do_not_fail_a_run_or_batch(tmp_path: Path) -> None:
    orders = in_parallel(call_task("Draw."), call_task_batch(items=["a face", "a tree"]))
    lead = [Answer(HALF, calls=orders.calls), f"In the end: {HALF}"]
    model = create_agents_model(lead, lambda messages: "A tree." if "tree" in get_prompt(messages) else HALF)
    async with open_harness(open_config(tmp_path), model) as harness:
        run, events = await finish_run(harness, await start_run(harness, build_request("go")))
        said = [message["content"] for message in await read_messages(harness)]
        lines = await read_results(harness)
    assert run.status is RunStatus.SUCCESS and events[-1]["type"] == "task_completed"
    assert said[1] == "half ? a face" and said[-1] == "In the end: half ? a face"
    assert "Task Succeeded. Result: half ? a face" in said
    assert [(line["status"], line["result"]) for line in lines] == [
        ("completed", "half ? a face"),
        ("completed", "A tree."),
    ]


@tool
async def ask_person() -> str:
    """Ask for approval."""
    return str(interrupt("May I?"))


async def test_tool_that_interrupts_fails_its_task(tmp_path: Path) -> None:
    entry = {"name": "ask_person", "group": "x", "use": f"{__name__}:ask_person"}
    model = create_agents_model([call_task("Ask."), "Nobody there."], lambda _: calling("ask_person"))
    async with open_harness(open_config(tmp_path, tools=[entry]), model) as harness:
        run, events = await finish_run(harness, await start_run(harness, build_request("go")))
        text = next(message["content"] for message in await read_messages(harness) if message["type"] == "tool")
    assert run.status is RunStatus.SUCCESS and events[-1]["type"] == "task_failed"
    assert text.startswith("Task failed. Error: a tool asks for input from a person")


@tool
async def cancel_itself() -> str:
    """Raise CancelledError, as libraries do when one of their own tasks is cancelled."""
    raise asyncio.CancelledError("not by us")


async def test_crash_of_one_task_does_not_affect_others(tmp_path: Path) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        answers = {"crash": ZeroDivisionError("division by zero"), "stray": calling("cancel_itself"), "good": "Fine."}
        return answers[get_prompt(messages)]

    entry = {"name": "cancel_itself", "group": "x", "use": f"{__name__}:cancel_itself"}
    model = create_agents_model(
        [in_parallel(call_task("crash"), call_task("stray"), call_task("good")), "One of three."], work
    )
    async with open_harness(open_config(tmp_path, tools=[entry]), model) as harness:
        run, events = await finish_run(harness, await start_run(harness, build_request("go")))
        texts = [message["content"] for message in await read_messages(harness) if message["type"] == "tool"]
    assert run.status is RunStatus.SUCCESS
    assert texts[0] == "Task failed. Error: division by zero" and texts[2] == "Task Succeeded. Result: Fine."
    assert texts[1].startswith("Task failed. Error: ")
    ends = [event["type"] for event in events if event["type"] in ("task_completed", "task_failed")]
    assert sorted(ends) == ["task_completed", "task_failed", "task_failed"]
