"""The lead agent gives work to agents of others: a real one, in a real sandbox, and hostile ones."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from acp.schema import McpCapabilities

from deerflow.acp.servers import passed_on
from deerflow.config.acp_agents import AcpAgentConfig
from deerflow.config.extensions import McpServerConfig, OAuthConfig
from deerflow.config.source import open_source
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import Resume, RunRequest, RunStatus
from deerflow.harness import Harness, open_harness
from deerflow.serving.happenings import Happening, Progressed, Returned
from deerflow.serving.turns import Turn
from deerflow.testing import Answer, ScriptedModel, calling
from tests.acp.examples import acp_example

ECHO = Path(__file__).with_name("echo_agent.py")
AGENT = {"command": sys.executable, "args": ["-B", str(ECHO)], "paths": [str(ECHO)], "description": "Echoes."}
DONE = "Done."


def settings(**changes: Any) -> dict[str, Any]:
    quiet = {name: {"enabled": False} for name in ("memory", "title", "guardrails")}
    agent = {**AGENT, **changes}
    return {**quiet, "acp_agents": {"echo": agent, "trusted": {**agent, "auto_approve_permissions": True}}}


def asking(prompt: str, agent: str = "echo") -> Any:
    return calling("invoke_acp_agent", agent=agent, prompt=prompt)


@asynccontextmanager
async def world(folder: Path, *prompts: str | Answer, **changes: Any) -> AsyncIterator[Harness]:
    orders = [prompt if isinstance(prompt, Answer) else asking(prompt) for prompt in prompts]
    script = [line for order in orders for line in (order, DONE)]
    source = open_source(directory=folder, environment={"SECRET": "x"}, overrides=settings(**changes))
    async with open_harness(source, ScriptedModel.saying(*script)) as harness:
        yield harness


async def say(harness: Harness, thread_id: str = "t", resume: Resume | None = None) -> tuple[Turn, list[Happening]]:
    said = [] if resume else [{"type": "human", "content": "Go on."}]
    turn = Turn(harness, LOCAL_USER, RunRequest(thread_id, said, resume=resume))
    turn.listener.called.update(f"call_{each}_0" for each in range(9))
    async with asyncio.timeout(60):
        return turn, [happening async for happening in turn.follow()]


def result_in(happenings: Sequence[Happening]) -> Returned:
    (result,) = [each for each in happenings if isinstance(each, Returned)]
    return result


async def test_the_echo_agent_answers_from_a_workspace_of_its_own(tmp_path: Path) -> None:
    asked = "write outside env terminal"
    async with world(tmp_path, asked, env={"MINE": "yes", "MY_API_KEY": "kingfisher-1"}) as harness:
        turn, happenings = await say(harness)
        result = result_in(happenings)
        assert not result.has_failed and turn.listener.answer == DONE
        assert result.text.startswith(asked)
        assert "[read 'two\\n', here ['note.txt']]" in result.text
        assert f"[{' '.join(['no'] * 11)}]" in result.text
        assert "[yes None ******** /mnt/acp-workspace]" in result.text
        assert "[Method not found]" in result.text
        thread = await harness.threads.get("t", LOCAL_USER)
        sandbox = await harness.sandboxes.get(await harness.sandboxes.acquire("t", LOCAL_USER.user_id))
        assert sandbox is not None and await sandbox.read_file("/mnt/acp-workspace/note.txt") == "one\ntwo\n"
        denied = await sandbox.execute_command("echo x > /mnt/acp-workspace/note.txt")
        assert denied.exit_code != 0
        assert thread.waits_for is None


@pytest.mark.external
@pytest.mark.timeout(120)  # the first time on a machine it is fetched
async def test_the_echo_agent_that_comes_with_the_protocols_package_answers(tmp_path: Path) -> None:
    echo = str(await asyncio.to_thread(acp_example, "echo_agent.py"))
    async with world(tmp_path, "Is there an echo?", args=["-B", echo], paths=[echo]) as harness:
        turn, happenings = await say(harness)
    result = result_in(happenings)
    assert result.text.startswith("Is there an echo?\n\nWhat it has made is in") and not result.has_failed
    assert turn.listener.answer == DONE


def test_mcp_servers_are_passed_on_that_are_on_and_can_be_used_without_a_login() -> None:
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
    assert [each.name for each in passed_on(agent, servers, McpCapabilities(http=True))] == ["files", "web"]
    assert [each.name for each in passed_on(agent, servers, None)] == ["files"]
    only = agent.model_copy(update={"mcp_servers": ("web",)})
    assert [each.name for each in passed_on(only, servers, McpCapabilities(http=True))] == ["web"]


async def test_permissions_are_a_persons_word_and_wait_for_it(tmp_path: Path) -> None:
    async with world(tmp_path, "permission permission", asking("permission", "trusted")) as harness:
        turn, _ = await say(harness)
        assert turn.ending == "needs_approval"
        (call,) = turn.questions[0]["value"]["action_requests"]
        wanted = {"agent": "echo", "wants": "Delete everything", "kind": "delete"}
        assert call["args"] == {**wanted, "input": {"path": "/", "agent": "trusted", "wants": "nothing"}}
        turn, _ = await say(harness, resume=Resume({"decisions": [{"type": "approve"}]}))
        assert turn.ending == "needs_approval"
        turn, happenings = await say(harness, resume=Resume({"decisions": [{"type": "reject"}]}))
        assert turn.ending == "answered"
        assert "[permission: y][permission: n]" in result_in(happenings).text
        turn, happenings = await say(harness)  # somebody has said in the configuration that this one may
        assert turn.ending == "answered" and "[permission: y]" in result_in(happenings).text


async def test_an_answer_that_comes_after_the_agent_was_ended_allows_nothing(tmp_path: Path) -> None:
    async with world(tmp_path, "permission") as harness:
        turn, _ = await say(harness)
        assert turn.ending == "needs_approval"
    source = open_source(directory=tmp_path, environment={}, overrides=settings())
    async with open_harness(source, ScriptedModel.saying("Well.")) as harness:
        turn, happenings = await say(harness, resume=Resume({"decisions": [{"type": "approve"}]}))
        assert turn.listener.answer == "Well." and result_in(happenings).has_failed
        assert "was ended before it got the answer" in result_in(happenings).text


async def test_crashes_and_garbage_are_told_as_what_they_are(tmp_path: Path) -> None:
    async with world(tmp_path, "crash", "flood") as harness:
        expected = ("it has ended by itself; it said: out of luck", "what it prints is not the protocol")
        for number, sentence in enumerate(expected):
            turn, happenings = await say(harness, f"t{number}")
            result = result_in(happenings)
            assert result.has_failed and sentence in result.text, result.text
            assert "acp_agents.echo.network" in result.text and turn.listener.answer == DONE


async def test_programs_that_are_no_agents_are_found_out(tmp_path: Path) -> None:
    wrong = {
        "garbage": ({"args": [str(ECHO), "garbage"]}, "what it prints is not the protocol"),
        "mute": ({"args": [str(ECHO), "mute"], "timeout_seconds": 1.0}, "longer than 1 s"),
        "none": ({"command": "/no/such/agent", "paths": []}, "there is no program '/no/such/agent'"),
    }
    agents = {"acp_agents": {name: {**AGENT, **changes} for name, (changes, _) in wrong.items()}}
    source = open_source(directory=tmp_path, environment={}, overrides={**settings(), **agents})
    script = [line for name in wrong for line in (asking("hello", name), DONE)]
    async with open_harness(source, ScriptedModel.saying(*script)) as harness:
        for name, (_, sentence) in wrong.items():
            turn, happenings = await say(harness, name)
            assert sentence in result_in(happenings).text and turn.listener.answer == DONE


async def test_progress_is_told_and_stopping_the_run_ends_the_agents_program(tmp_path: Path) -> None:
    mark = str(tmp_path)  # others may run the same program now
    async with world(tmp_path, "write hang", args=["-B", str(ECHO), mark]) as harness:
        turn = Turn(harness, LOCAL_USER, RunRequest("t", [{"type": "human", "content": "Go."}]))
        begun = asyncio.Event()

        async def follow() -> None:
            told = ""
            async for happening in turn.follow():
                told += happening.text if isinstance(happening, Progressed) else ""
                if "- [in_progress] write it down" in told and "[Write a note]" in told and "[read " in told:
                    begun.set()

        following = asyncio.create_task(follow())
        async with asyncio.timeout(60):
            await begun.wait()
            assert programs(mark) == 1
            assert turn.run is not None
            await harness.runs.stop(turn.run.run_id)
            await following
            assert programs(mark) == 0
        assert turn.run.status is RunStatus.INTERRUPTED
        state = await harness.threads.state("t", LOCAL_USER)
        assert orjson.loads(state.interrupts) == []


def programs(mark: str) -> int:
    """How many programs run that were given this argument by us."""
    found = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            found += mark.encode() in words and b"-B" in words[:2]
    return found
