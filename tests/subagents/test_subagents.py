"""Work that an agent gives to others: real runs, a real sandbox, a scripted model for all of them."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from langchain_core.messages import BaseMessage, ToolMessage

from deerflow.config.source import open_source
from deerflow.domain.errors import ModelRejected
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import AgentSpec, RunRecord, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.testing import Answer, ScriptedModel, calling, in_parallel
from tests.sandbox.processes import marked_seconds, survivors, until_alive
from tests.support import said

ROLE = "You do one piece of work for another agent"
Part = Callable[[Sequence[BaseMessage]], Any]


def playing(lead: Sequence[Any], subagent: Part, calls: int = 20) -> ScriptedModel:
    """A model that is both: the lead agent, which says its lines, and every subagent."""
    lines = iter(lead)

    def answer(messages: Sequence[BaseMessage]) -> Any:
        is_lead = "<subagent_system>" in messages[0].text
        return next(lines) if is_lead else subagent(messages)

    return ScriptedModel.saying(*[answer] * calls)


def task(prompt: str, kind: str = "general-purpose", **more: object) -> Answer:
    return calling("task", description="a part", prompt=prompt, subagent_type=kind, **more)


def steps(messages: Sequence[BaseMessage]) -> int:
    """How many tools the subagent has used so far."""
    return sum(isinstance(message, ToolMessage) for message in messages)


def order_in(messages: Sequence[BaseMessage]) -> str:
    """What the subagent is to do."""
    return said(messages)[0]


def asking(text: str, **spec: Any) -> RunRequest:
    return RunRequest("t", [{"type": "human", "content": text}], AgentSpec(subagent_enabled=True, **spec))


def config(tmp_path: Path, **sections: object) -> Any:
    off = {"sandbox": {"toolbox": {"enabled": False}}}
    return open_source(directory=tmp_path, environment={}, overrides={**off, **sections})


async def start(harness: Harness, request: RunRequest) -> RunRecord:
    return await harness.runs.create_or_reject(request, LOCAL_USER)


async def finish(harness: Harness, run: RunRecord) -> tuple[RunRecord, list[dict[str, Any]]]:
    """How a run ended, and what its log says of tasks."""
    async with asyncio.timeout(30):
        groups = [group async for group in harness.runs.listen(run)]
        done = await harness.runs.join(run.thread_id, run.run_id, LOCAL_USER)
    told = [orjson.loads(event.data) for group in groups for event in group if event.event == "custom"]
    return done, [event for event in told if event["type"].startswith("task_")]


async def messages_of(harness: Harness) -> list[dict[str, Any]]:
    state = orjson.loads((await harness.threads.state("t", LOCAL_USER)).values)
    found: list[dict[str, Any]] = state["messages"]
    return found


async def test_a_subagent_works_in_the_sandbox_of_its_lead_and_only_its_answer_comes_back(tmp_path: Path) -> None:
    path = "/mnt/user-data/workspace/secret.txt"

    def work(messages: Sequence[BaseMessage]) -> Any:
        return calling("bash", description="look", command=f"cat {path}") if not steps(messages) else "It says deer."

    write = calling("write_file", description="note", path=path, content="deer")
    model = playing([write, task(f"What is in {path}?"), "Deer it is."], work)
    async with open_harness(config(tmp_path), model) as harness:
        run, told = await finish(harness, await start(harness, asking("go")))
        messages = await messages_of(harness)

    asked = [request for request in model.requests if ROLE in request.messages[0].text]
    assert run.status is RunStatus.SUCCESS
    assert said(asked[0].messages) == [f"What is in {path}?"]  # and nothing of the conversation it is for
    assert "deer" in asked[1].messages[-1].text  # the command has read what the lead agent wrote
    assert not {"task", "task_batch", "ask_clarification", "present_files"} & set(asked[0].tool_names)
    assert any("memory" in name for name in model.requests[0].tool_names)
    assert not any("memory" in name for name in asked[0].tool_names)
    assert [message["type"] for message in messages] == ["human", "ai", "tool", "ai", "tool", "ai"]
    result = messages[4]
    assert result["content"] == "Task Succeeded. Result: It says deer."
    assert result["additional_kwargs"]["subagent_status"] == "completed"
    assert result["additional_kwargs"]["subagent_token_usage"]["input_tokens"] == 20
    kinds = [event["type"] for event in told]
    assert kinds == ["task_started", "task_running", "task_running", "task_running", "task_completed"]
    assert {event["task_id"] for event in told} == {result["tool_call_id"]}
    assert [event["message"]["type"] for event in told if "message" in event] == ["ai", "tool", "ai"]


async def test_what_a_subagent_says_is_no_part_of_what_the_lead_says(tmp_path: Path) -> None:
    model = playing([task("Sing."), "Heard."], lambda _: "La la la.")
    async with open_harness(config(tmp_path), model) as harness:
        run = await start(harness, asking("go"))
        async with asyncio.timeout(30):
            groups = [group async for group in harness.runs.listen(run)]
    pieces = [orjson.loads(event.data)[0] for group in groups for event in group if event.event == "messages"]
    assert "La" not in "".join(piece["content"] for piece in pieces if piece["type"] == "AIMessageChunk")


async def test_tasks_of_one_reply_are_worked_on_side_by_side_and_never_more_than_allowed(tmp_path: Path) -> None:
    working, most = set[str](), 0
    met = asyncio.Barrier(2)

    class Meeting(ScriptedModel):
        async def _astream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal most
            is_lead = "<subagent_system>" in messages[0].text
            if not is_lead:
                working.add(order_in(messages))
                most = max(most, len(working))
                await met.wait()  # nobody gets past who works alone
            async for chunk in super()._astream(messages, *args, **kwargs):
                yield chunk
            if not is_lead:
                working.discard(order_in(messages))

    both = in_parallel(task("one"), task("two"))
    model = Meeting.saying(*playing([both, both, "All done."], lambda messages: f"Did {order_in(messages)}.")._script)
    async with open_harness(config(tmp_path), model) as harness:
        run, told = await finish(harness, await start(harness, asking("go", max_concurrent_subagents=2)))
    assert run.status is RunStatus.SUCCESS
    assert most == 2
    assert [event["result"] for event in told if event["type"] == "task_completed"].count("Did one.") == 2


async def test_a_task_that_fails_is_told_and_leaves_the_others_alone(tmp_path: Path) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        return ModelRejected("the key is wrong") if order_in(messages) == "bad" else "Fine."

    model = playing([in_parallel(task("good"), task("bad")), "One of two."], work)
    async with open_harness(config(tmp_path), model) as harness:
        run, told = await finish(harness, await start(harness, asking("go")))
        texts = [message["content"] for message in await messages_of(harness) if message["type"] == "tool"]
    assert run.status is RunStatus.SUCCESS
    assert texts == ["Task Succeeded. Result: Fine.", "Task failed. Error: the key is wrong"]
    assert sorted(event["type"] for event in told)[:2] == ["task_completed", "task_failed"]


async def test_stopping_a_run_ends_the_command_of_its_subagent(tmp_path: Path) -> None:
    seconds = marked_seconds()
    model = playing(
        [task("Wait."), "Again."], lambda _: calling("bash", description="wait", command=f"sleep {seconds}")
    )
    async with open_harness(config(tmp_path), model) as harness:
        run = await start(harness, asking("go"))
        await until_alive(seconds)
        await harness.runs.cancel("t", run.run_id, LOCAL_USER)
        left = await survivors(seconds)
        done, told = await finish(harness, run)
        again, _ = await finish(harness, await start(harness, asking("and now?")))
    assert left == []
    assert done.status is RunStatus.INTERRUPTED
    assert told[-1]["type"] == "task_cancelled"
    assert again.status is RunStatus.SUCCESS


async def test_a_subagent_that_takes_too_long_is_ended_with_its_command(tmp_path: Path) -> None:
    seconds = marked_seconds()
    settings = config(tmp_path, subagents={"agents": {"bash": {"timeout_seconds": 0.5}}})
    model = playing(
        [task("Wait.", "bash"), "Too slow."],
        lambda _: calling("bash", description="wait", command=f"sleep {seconds}"),
    )
    async with open_harness(settings, model) as harness:
        run, told = await finish(harness, await start(harness, asking("go")))
        text = [message["content"] for message in await messages_of(harness) if message["type"] == "tool"]
    assert run.status is RunStatus.SUCCESS
    assert text == ["Task timed out. Error: it took longer than 0.5 s"]
    assert told[-1]["type"] == "task_timed_out" and 0.5 <= told[-1]["duration_s"] < 1.5
    assert await survivors(seconds) == []


async def test_a_subagent_that_does_not_come_to_an_end_is_capped_and_what_it_had_is_kept(tmp_path: Path) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        call = calling("ls", description="look", path=f"/mnt/user-data/workspace/{steps(messages)}")
        return Answer("Looking on.", calls=call.calls)

    model = playing([task("Look.", max_turns=3), "Enough."], work)
    async with open_harness(config(tmp_path), model) as harness:
        _, told = await finish(harness, await start(harness, asking("go")))
        text = [message["content"] for message in await messages_of(harness) if message["type"] == "tool"]
    assert text == ["Task stopped: it has taken all of its 3 turns. What it had by then: Looking on."]
    assert told[-1]["stop_reason"] == "turn_capped"


async def test_a_subagent_that_goes_round_in_circles_is_capped_and_not_said_to_have_succeeded(tmp_path: Path) -> None:
    model = playing([task("Look."), "Enough."], lambda _: calling("ls", description="look", path="/mnt/user-data"))
    async with open_harness(config(tmp_path), model) as harness:
        _, told = await finish(harness, await start(harness, asking("go")))
        (result,) = [message for message in await messages_of(harness) if message["type"] == "tool"]
    assert result["content"].startswith("Task stopped: it was going round in circles.")
    assert result["additional_kwargs"]["subagent_status"] == "capped"
    assert (told[-1]["type"], told[-1]["stop_reason"]) == ("task_completed", "loop_capped")


async def test_a_model_that_fails_in_the_middle_fails_its_task_and_what_it_took_is_counted(tmp_path: Path) -> None:
    def work(messages: Sequence[BaseMessage]) -> Any:
        look = calling("ls", description="look", path="/mnt/user-data")
        return ModelRejected("the account is closed") if steps(messages) else Answer("So far.", calls=look.calls)

    model = playing([in_parallel(task("Look."), task(" ")), "Failed."], work)
    async with open_harness(config(tmp_path), model) as harness:
        run, told = await finish(harness, await start(harness, asking("go")))
        failed, refused = [message for message in await messages_of(harness) if message["type"] == "tool"]
    assert run.status is RunStatus.SUCCESS
    assert failed["content"] == "Task failed. Error: the account is closed"
    assert failed["additional_kwargs"]["subagent_result_brief"] == "So far."
    assert failed["additional_kwargs"]["subagent_token_usage"]["input_tokens"] == 10
    assert told[-1]["type"] == "task_failed" and told[-1]["usage"]["input_tokens"] == 10
    assert "the prompt is empty" in refused["content"]


async def test_a_slip_in_the_settings_of_a_kind_is_told_and_the_kind_works_with_what_there_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reader = {"description": "Reads.", "system_prompt": ROLE, "tools": ["reed_file", "ls", "task"], "model": "gpt-0"}
    settings = {"custom_agents": {"reader": reader}, "agents": {"raeder": {"max_turns": 3}}}
    model = playing([task("Read.", "reader"), "Done."], lambda _: "Read it.")
    async with open_harness(config(tmp_path, subagents=settings), model) as harness:
        run, _ = await finish(harness, await start(harness, asking("go")))
    assert run.status is RunStatus.SUCCESS and model.requests[1].tool_names == ["ls"]
    assert "subagent 'reader': there is no tool 'reed_file', so it goes without; there is read_file" in caplog.text
    assert "subagents.agents.raeder: there is no such kind" in caplog.text
    assert "no model is called 'gpt-0'" in caplog.text


async def test_files_beside_the_configuration_and_in_the_home_describe_kinds_and_edits_count_for_the_next_run(
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
    model = playing([task("A line.", "poet"), "There.", task("One more.", "poet"), "There."], lambda _: "Antlers.")
    async with open_harness(config(tmp_path), model) as harness:
        run, _ = await finish(harness, await start(harness, asking("go")))
        write("agents/poet.md", poet.replace("a poet", "a better poet"))
        await finish(harness, await start(harness, asking("again")))
    lead, first, _, _, second, _ = model.requests
    assert run.status is RunStatus.SUCCESS
    assert "- poet: Verses." in lead.messages[0].text and "- critic: Doubts." in lead.messages[0].text
    assert "broken" not in lead.messages[0].text
    assert "You are a poet." in first.messages[0].text and first.tool_names == ["ls"]
    assert "You are a better poet." in second.messages[0].text


async def test_a_kind_that_does_not_exist_is_refused_with_those_that_do(tmp_path: Path) -> None:
    model = playing([task("Go.", "wizard"), "No wizards here."], lambda _: "never asked")
    async with open_harness(config(tmp_path), model) as harness:
        run, told = await finish(harness, await start(harness, asking("go")))
        text = next(message["content"] for message in await messages_of(harness) if message["type"] == "tool")
    assert run.status is RunStatus.SUCCESS and told == []
    assert "'general-purpose' or 'bash'" in text


async def test_tools_that_a_person_must_approve_are_not_for_subagents(tmp_path: Path) -> None:
    entry = {"name": "bash", "group": "bash", "use": "deerflow.sandbox.tools:bash_tool", "approval": "always"}
    model = playing([task("Go."), "Done."], lambda _: "Did what I could.")
    async with open_harness(config(tmp_path, tools=[entry]), model) as harness:
        await finish(harness, await start(harness, asking("go")))
    lead, subagent = model.requests[0], next(each for each in model.requests if ROLE in each.messages[0].text)
    assert "bash" in lead.tool_names and "bash" not in subagent.tool_names
    # Nor is anybody offered whose whole work that would be.
    assert "- general-purpose:" in lead.messages[0].text and "- bash:" not in lead.messages[0].text


async def test_an_agent_that_may_not_run_commands_can_have_nobody_run_them(tmp_path: Path) -> None:
    folder = tmp_path / ".deer-flow/users/local/agents/reader"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text('tool_groups: ["file:read"]\n')
    model = playing([task("Go.", "bash"), task("Go."), "Done."], lambda _: "Did what I could.")
    async with open_harness(config(tmp_path), model) as harness:
        request = asking("go", agent_name="reader", owner="local")
        _, told = await finish(harness, await start(harness, request))
        refused, _ = [message["content"] for message in await messages_of(harness) if message["type"] == "tool"]
    lead, subagent = model.requests[0], next(each for each in model.requests if ROLE in each.messages[0].text)
    assert "- bash:" not in lead.messages[0].text and "Input should be 'general-purpose'" in refused
    assert "read_file" in subagent.tool_names and not {"bash", "write_file"} & set(subagent.tool_names)
    assert "update_agent" in lead.tool_names and "update_agent" not in subagent.tool_names


@pytest.mark.parametrize("is_on", [True, False])
async def test_only_a_request_that_asks_for_them_has_subagents(tmp_path: Path, is_on: bool) -> None:
    model = ScriptedModel.saying("Hello.")
    settings = config(tmp_path, subagents={"enabled": is_on})
    async with open_harness(settings, model) as harness:
        spec = AgentSpec(subagent_enabled=not is_on)
        await finish(harness, await start(harness, RunRequest("t", [{"type": "human", "content": "hi"}], spec)))
    assert "task" not in model.requests[0].tool_names
