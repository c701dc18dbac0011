"""Tests of `invoke_acp_agent` with a real agent in a real sandbox, and with hostile ones."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from acp.schema import McpCapabilities

from deerflow.acp.session import select_mcp_servers
from deerflow.config.sections.agents import AcpAgentConfig
from deerflow.config.sections.extensions import McpServerConfig, OAuthConfig
from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import Resume, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.serving.turns import ToolFinished, ToolProgressed, Turn, TurnEvent
from deerflow.testing import Answer, ScriptedModel, calling
from tests.acp.examples import acp_example

ECHO = Path(__file__).with_name("echo_agent.py")
AGENT = {"command": sys.executable, "args": ["-B", str(ECHO)], "paths": [str(ECHO)], "description": "Echoes."}
DONE = "Done."


def build_settings(**changes: Any) -> dict[str, Any]:
    quiet = {name: {"enabled": False} for name in ("memory", "title", "guardrails")}
    agent = {**AGENT, **changes}
    return {**quiet, "acp_agents": {"echo": agent, "trusted": {**agent, "auto_approve_permissions": True}}}


def call_agent(prompt: str, agent: str = "echo") -> Any:
    return calling("invoke_acp_agent", agent=agent, prompt=prompt)


@asynccontextmanager
async def open_acp_harness(folder: Path, *prompts: str | Answer, **changes: Any) -> AsyncIterator[Harness]:
    orders = [prompt if isinstance(prompt, Answer) else call_agent(prompt) for prompt in prompts]
    script = [line for order in orders for line in (order, DONE)]
    source = open_source(directory=folder, environment={"SECRET": "x"}, overrides=build_settings(**changes))
    async with open_harness(source, ScriptedModel.saying(*script)) as harness:
        yield harness


async def run_turn(
    harness: Harness, thread_id: str = "t", resume: Resume | None = None
) -> tuple[Turn, list[TurnEvent]]:
    messages = [] if resume else [{"type": "human", "content": "Go on."}]
    turn = Turn(harness, LOCAL_USER, RunRequest(thread_id, messages, resume=resume))
    turn.reader.called.update(f"call_{each}_0" for each in range(9))
    async with asyncio.timeout(60):
        return turn, [event async for event in turn.follow()]


def find_result(events: Sequence[TurnEvent]) -> ToolFinished:
    (result,) = [each for each in events if isinstance(each, ToolFinished)]
    return result


@pytest.mark.slow
async def test_agent_answers_from_its_own_workspace(tmp_path: Path) -> None:
    asked = "write outside env terminal"
    async with open_acp_harness(tmp_path, asked, env={"MINE": "yes", "MY_API_KEY": "kingfisher-1"}) as harness:
        turn, events = await run_turn(harness)
        result = find_result(events)
        assert not result.has_failed and turn.reader.answer == DONE
        assert result.text.startswith(asked)
        assert "[read 'two\\n', here ['note.txt']]" in result.text
        assert f"[{' '.join(['no'] * 11)}]" in result.text
        assert "[yes None ******** /mnt/acp-workspace]" in result.text
        assert "[Method not found]" in result.text
        thread = await harness.threads.get("t", LOCAL_USER)
        sandbox = await harness.core.sandboxes.get(await harness.core.sandboxes.acquire("t", LOCAL_USER.user_id))
        assert sandbox is not None and await sandbox.read_file("/mnt/acp-workspace/note.txt") == "one\ntwo\n"
        denied = await sandbox.execute_command("echo x > /mnt/acp-workspace/note.txt")
        assert denied.exit_code != 0
        assert thread.waits_for is None


@pytest.mark.external
@pytest.mark.timeout(120)  # downloads the package once per machine
async def test_example_agent_of_the_protocol_package_answers(tmp_path: Path) -> None:
    echo = str(await asyncio.to_thread(acp_example, "echo_agent.py"))
    async with open_acp_harness(tmp_path, "Is there an echo?", args=["-B", echo], paths=[echo]) as harness:
        turn, events = await run_turn(harness)
    result = find_result(events)
    assert result.text.startswith("Is there an echo?\n\nWhat it has made is in") and not result.has_failed
    assert turn.reader.answer == DONE


def test_mcp_servers_are_select_mcp_servers_that_are_on_and_can_be_used_without_a_login() -> None:
    web: dict[str, Any] = {"type": "http", "url": "https://mcp.example"}
    login = {"token_url": "https://t.example", "client_id": "a", "client_secret": "b"}
    servers = {
        "files": McpServerConfig(command="npx", env={"KEY": "k"}),
        "web": McpServerConfig(**web, headers={"x": "y"}),
        "old": McpServerConfig(**{**web, "type": "sse"}),
        "off": McpServerConfig(command="npx", enabled=False),
        "login": McpServerConfig(**web, oauth=OAuthConfig(**login)),
    }
    agent = AcpAgentConfig(command="a", description="b")
    assert [each.name for each in select_mcp_servers(agent, servers, McpCapabilities(http=True))] == ["files", "web"]
    assert [each.name for each in select_mcp_servers(agent, servers, None)] == ["files"]
    only = agent.model_copy(update={"mcp_servers": ("web",)})
    assert [each.name for each in select_mcp_servers(only, servers, McpCapabilities(http=True))] == ["web"]


@pytest.mark.slow
async def test_permission_request_waits_for_a_decision(tmp_path: Path) -> None:
    async with open_acp_harness(tmp_path, "permission permission", call_agent("permission", "trusted")) as harness:
        turn, _ = await run_turn(harness)
        assert turn.ending == "needs_approval"
        (call,) = turn.questions[0]["value"]["action_requests"]
        wanted = {"agent": "echo", "wants": "Delete everything", "kind": "delete"}
        assert call["args"] == {**wanted, "input": {"path": "/", "agent": "trusted", "wants": "nothing"}}
        turn, _ = await run_turn(harness, resume=Resume({"decisions": [{"type": "approve"}]}))
        assert turn.ending == "needs_approval"
        turn, events = await run_turn(harness, resume=Resume({"decisions": [{"type": "reject"}]}))
        assert turn.ending == "answered"
        assert "[permission: y][permission: n]" in find_result(events).text
        turn, events = await run_turn(harness)  # auto-approved by the configuration
        assert turn.ending == "answered" and "[permission: y]" in find_result(events).text


@pytest.mark.slow
async def test_decision_after_a_restart_allows_nothing(tmp_path: Path) -> None:
    async with open_acp_harness(tmp_path, "permission") as harness:
        turn, _ = await run_turn(harness)
        assert turn.ending == "needs_approval"
    source = open_source(directory=tmp_path, environment={}, overrides=build_settings())
    async with open_harness(source, ScriptedModel.saying("Well.")) as harness:
        turn, events = await run_turn(harness, resume=Resume({"decisions": [{"type": "approve"}]}))
        assert turn.reader.answer == "Well." and find_result(events).has_failed
        assert "was ended before it got the answer" in find_result(events).text


@pytest.mark.slow
async def test_reports_crashes_and_invalid_output(tmp_path: Path) -> None:
    async with open_acp_harness(tmp_path, "crash", "flood") as harness:
        expected = ("it has exited; its output: out of luck", "what it prints does not follow the protocol")
        for number, sentence in enumerate(expected):
            turn, events = await run_turn(harness, f"t{number}")
            result = find_result(events)
            assert result.has_failed and sentence in result.text, result.text
            assert "acp_agents.echo.network" in result.text and turn.reader.answer == DONE


@pytest.mark.slow
async def test_reports_programs_that_are_not_agents(tmp_path: Path) -> None:
    wrong = {
        "garbage": ({"args": [str(ECHO), "garbage"]}, "what it prints does not follow the protocol"),
        "mute": ({"args": [str(ECHO), "mute"], "timeout_seconds": 1.0}, "longer than 1 s"),
        "none": ({"command": "/no/such/agent", "paths": []}, "there is no program '/no/such/agent'"),
    }
    agents = {"acp_agents": {name: {**AGENT, **changes} for name, (changes, _) in wrong.items()}}
    source = open_source(directory=tmp_path, environment={}, overrides={**build_settings(), **agents})
    script = [line for name in wrong for line in (call_agent("hello", name), DONE)]
    async with open_harness(source, ScriptedModel.saying(*script)) as harness:
        for name, (_, sentence) in wrong.items():
            turn, events = await run_turn(harness, name)
            assert sentence in find_result(events).text and turn.reader.answer == DONE


@pytest.mark.slow
async def test_streams_progress_and_stopping_the_run_ends_the_process(tmp_path: Path) -> None:
    mark = str(tmp_path)  # the same program may run elsewhere at the same time
    async with open_acp_harness(tmp_path, "write hang", args=["-B", str(ECHO), mark]) as harness:
        turn = Turn(harness, LOCAL_USER, RunRequest("t", [{"type": "human", "content": "Go."}]))
        begun = asyncio.Event()

        async def follow() -> None:
            progress = ""
            async for event in turn.follow():
                progress += event.text if isinstance(event, ToolProgressed) else ""
                if (
                    "- [in_progress] write it down" in progress
                    and "[Write a note]" in progress
                    and "[read " in progress
                ):
                    begun.set()

        following = asyncio.create_task(follow())
        async with asyncio.timeout(60):
            await begun.wait()
            assert count_processes(mark) == 1
            assert turn.run is not None
            await harness.runs.stop(turn.run.run_id)
            await following
            assert count_processes(mark) == 0
        assert turn.run.status is RunStatus.INTERRUPTED
        state = await harness.threads.state("t", LOCAL_USER)
        assert orjson.loads(state.interrupts) == []


def count_processes(mark: str) -> int:
    """Return the number of running processes started with this argument."""
    found = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            found += mark.encode() in words and b"-B" in words[:2]
    return found
