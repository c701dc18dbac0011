"""Enforcement of skill contracts against a model that tries to break them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from langchain_core.messages import BaseMessage, ToolMessage

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec, RunRequest
from deerflow.harness import Harness, open_harness
from deerflow.testing import Answer, ScriptedModel, calling
from tests.skills.loopback import PORT_VARIABLE, Listener, open_listener

HOST = "listener.example"
OTHER = "other.example"
OPERATOR = {
    "network": "allowlist",
    "allowed_hosts": [HOST],
    "environment": {"ALPHA": "first", "BETA": "second"},
    "skill_environment": {"IMAGE_API_KEY": "key-0123456789", "OTHER_API_KEY": "other-0123456789"},
    "use": "tests.skills.loopback:LoopbackProvider",
    "toolbox": {"enabled": False},
}


def add_skill(folder: Path, name: str, contract: str, tools: str = "") -> None:
    skill = folder / "skills" / "public" / name
    skill.mkdir(parents=True)
    limit = f"allowed-tools: [{tools}]\n" if tools else ""
    (skill / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Tries things.\n{limit}---\nTry things.\n")
    if contract:
        (skill / "skill.toml").write_text(contract)


@asynccontextmanager
async def open_test_harness(
    folder: Path, model: ScriptedModel, listener: Listener, **sandbox: object
) -> AsyncIterator[Harness]:
    is_strict = sandbox.pop("require_contract", False)
    fetch = {"name": "web_fetch", "group": "web", "use": "deerflow.community.web_fetch.tools:web_fetch_tool"}
    overrides = {
        "sandbox": {**OPERATOR, **sandbox},
        "skills": {"path": str(folder / "skills"), "require_contract": is_strict},
        "suggestions": {"enabled": False},
        "guardrails": {"enabled": False},
        "tools": [{**fetch, "allow_private_addresses": True, "respect_robots": False}],
    }
    environment = {PORT_VARIABLE: str(listener.port)}
    source = open_source(directory=folder, environment=environment, overrides=overrides)
    async with open_harness(source, model) as harness:
        yield harness


async def run_attempts(
    folder: Path, skill: str, *attempts: Answer, listener: Listener | None = None, **sandbox: object
) -> list[str]:
    """Request a skill by name, make the attempts and return their results."""
    model = ScriptedModel.saying(*attempts, "done")
    async with open_test_harness(folder, model, listener or Listener(port=9), **sandbox) as harness:
        request = RunRequest(skill, [{"type": "human", "content": f"/{skill} try"}], AgentSpec(subagent_enabled=True))
        run = await harness.runs.create_or_reject(request, LOCAL_USER)
        record = await harness.runs.join(skill, run.run_id, LOCAL_USER)
        assert record.error is None
    return list_tool_results(model.requests[-1].messages)


def list_tool_results(messages: Sequence[BaseMessage]) -> list[str]:
    return [message.text for message in messages if isinstance(message, ToolMessage)]


def call_bash(command: str) -> Answer:
    return calling("bash", description="try", command=command)


def build_network_attempts(listener: Listener) -> list[Answer]:
    fetch = f"import urllib.request; print(urllib.request.urlopen('http://{HOST}/by-python', timeout=5).read())"
    raw = f"import socket; socket.create_connection(('127.0.0.1', {listener.port}), 3).send(b'GET /raw HTTP/1.1')"
    send = f"socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'?', ('127.0.0.1', {listener.udp_port}))"
    look_up = f"import socket; {send}; print(socket.gethostbyname('{HOST}'))"
    return [
        call_bash(f"curl -sS -m 5 http://{HOST}/by-curl"),
        call_bash(f"curl -sS -m 5 --noproxy '*' http://127.0.0.1:{listener.port}/past-the-proxy"),
        call_bash(f'python3 -c "{fetch}"'),
        call_bash(f'python3 -c "{raw}"'),
        call_bash(f'python3 -c "{look_up}"'),
        calling("web_fetch", url=f"http://127.0.0.1:{listener.port}/by-web-fetch"),
        calling("web_fetch", url=f"http://127.0.0.1:{listener.port}/moved"),
    ]


async def test_skill_without_hosts_has_no_network(tmp_path: Path) -> None:
    add_skill(tmp_path, "closed", "[needs]\nhosts = []\n")

    async with open_listener() as listener:
        results = await run_attempts(tmp_path, "closed", *build_network_attempts(listener), listener=listener)

    assert listener.requests == []
    assert len(results) == 7 and all("reached the listener" not in result for result in results)
    assert "declares no host, so it has no network" in results[5]
    assert "tell the user that the skill's contract (skill.toml) does not allow it" in results[5]


async def test_skill_reaches_only_its_declared_hosts(tmp_path: Path) -> None:
    add_skill(tmp_path, "open", f'[needs]\nhosts = ["{HOST}", "{OTHER}", "127.0.0.1"]\n')

    async with open_listener() as listener:
        elsewhere = calling("web_fetch", url=f"http://localhost:{listener.port}/elsewhere")
        unlisted = call_bash(f"curl -sS -m 5 http://{OTHER}/not-allowed-by-the-operator")
        attempts = [*build_network_attempts(listener), elsewhere, unlisted]
        results = await run_attempts(tmp_path, "open", *attempts, listener=listener)

    assert listener.requests == ["/by-curl", "/by-python", "/by-web-fetch", "/moved"]
    assert [("reached the listener" in result) for result in results] == [True, False, True, False, False, True] + [
        False
    ] * 3
    assert "localhost is not an allowed host" in results[6]
    assert f"may reach only {HOST}, {OTHER}, 127.0.0.1" in results[7]
    assert f"{OTHER} is not on the list; this sandbox reaches only: {HOST}" in results[8]


async def test_contract_does_not_enable_a_disabled_network(tmp_path: Path) -> None:
    add_skill(tmp_path, "open", f'[needs]\nhosts = ["{HOST}"]\n')

    async with open_listener() as listener:
        attempt = call_bash(f"curl -sS -m 5 http://{HOST}/")
        await run_attempts(tmp_path, "open", attempt, listener=listener, network="none", allowed_hosts=[])

    assert listener.requests == []


async def test_undeclared_variables_and_folders_are_not_accessible(tmp_path: Path) -> None:
    add_skill(tmp_path, "narrow", '[needs]\nenvironment = ["ALPHA", "PATHLESS"]\npaths = ["/mnt/user-data/outputs"]\n')
    workspace, outputs = "/mnt/user-data/workspace", "/mnt/user-data/outputs"

    results = await run_attempts(
        tmp_path,
        "narrow",
        call_bash("echo [$ALPHA] [$BETA]; env | grep -c second; cat /proc/1/environ | tr '\\0' '\\n' | grep -c second"),
        call_bash(f"echo x > {workspace}/x; echo x > {outputs}/x && echo x > /tmp/x && cat {outputs}/x /tmp/x"),
        calling("write_file", description="try", path=f"{workspace}/y", content="y"),
        calling("write_file", description="try", path=f"{outputs}/y", content="y"),
        calling("bash", description="try", command=f"echo z > {workspace}/z", background=True, name="later"),
        call_bash(f"sleep 0.3; ls {workspace}/z"),
    )

    assert results[0] == "[first] []\n0\n0\n[exit code 1]"
    assert f"{workspace}/x: Read-only file system" in results[1] and results[1].endswith("x\nx")
    assert "it is read-only; write to another folder" in results[2]
    assert results[3] == "OK"
    assert "No such file or directory" in results[5]


async def test_secret_is_visible_only_to_the_declaring_skill_and_redacted(tmp_path: Path) -> None:
    add_skill(tmp_path, "painter", '[needs]\nenvironment = ["IMAGE_API_KEY"]\n')
    look = call_bash("echo ${#IMAGE_API_KEY} ${#OTHER_API_KEY} ${#BETA}; echo $IMAGE_API_KEY")

    painting = await run_attempts(tmp_path, "painter", look)
    chatting = await run_attempts(tmp_path, "nobody", look)

    assert painting == ["14 0 0\n********"]
    assert chatting == ["0 0 6"]


async def test_reports_missing_packages_once(tmp_path: Path) -> None:
    add_skill(tmp_path, "needy", '[needs]\npackages = ["no-such-package", "neither-this"]\n')

    results = await run_attempts(tmp_path, "needy", call_bash("echo one"), call_bash("echo two"))

    assert results[0].startswith("one\n[the skill 'needy' needs no-such-package, neither-this, which the sandbox's")
    assert "sandbox.toolbox.packages" in results[0]
    assert results[1] == "two"


async def test_tools_must_be_allowed_by_skill_md_and_contract(tmp_path: Path) -> None:
    add_skill(tmp_path, "reader", '[needs]\ntools = ["write_file", "bash"]\n', tools="bash, grep")

    results = await run_attempts(
        tmp_path,
        "reader",
        call_bash("echo allowed"),
        calling("write_file", description="try", path="/mnt/user-data/outputs/x", content="x"),
        calling("grep", description="try", pattern="x", path="/mnt/user-data/outputs"),
    )

    assert results[0] == "allowed"
    assert all("the active skill (reader) does not allow it" in result for result in results[1:])


@pytest.mark.slow
async def test_exhausted_budget_refuses_further_calls(tmp_path: Path) -> None:
    add_skill(tmp_path, "brief", "[budget]\nmax_tool_calls = 1\n")
    add_skill(tmp_path, "hasty", "[budget]\nseconds = 0.7\n")
    look = calling("ls", description="look", path="/mnt/user-data/outputs")

    by_calls = await run_attempts(tmp_path, "brief", call_bash("echo one"), call_bash("echo two"), look)
    by_time = await run_attempts(tmp_path, "hasty", call_bash("echo one; sleep 60"), call_bash("echo two"), look)

    assert by_calls[0] == "one" and by_calls[2] == "(empty)"
    assert (
        "bash was not called: the skill 'brief' has reached its limit of 1 tool calls. Finish with what you have"
        in by_calls[1]
    )
    assert "bash was ended: the skill 'hasty' has exceeded its time limit of 0.7 s" in by_time[0]
    assert "bash was not called" in by_time[1] and by_time[2] == "(empty)"


async def test_contract_applies_to_subagents(tmp_path: Path) -> None:
    add_skill(tmp_path, "closed", "[needs]\nhosts = []\n")
    give = calling("task", description="try", prompt="try it", subagent_type="general-purpose")

    async with open_listener() as listener:
        results = await run_attempts(
            tmp_path,
            "closed",
            give,
            call_bash(f"curl -sS -m 5 http://{HOST}/; echo $BETA."),
            "tried",
            listener=listener,
        )

    assert listener.requests == []
    assert "tried" in results[0]


async def test_skill_without_a_required_contract_has_no_access(tmp_path: Path) -> None:
    add_skill(tmp_path, "silent", "")
    attempt = call_bash(f"curl -sS -m 5 http://{HOST}/; echo [$ALPHA]; touch /mnt/user-data/outputs/x")

    async with open_listener() as listener:
        free = await run_attempts(tmp_path, "silent", attempt, listener=listener)
        assert (free, listener.requests) == (["reached the listener[first]"], ["/"])
        (tmp_path / ".deer-flow").rename(tmp_path / "before")
        confined = await run_attempts(tmp_path, "silent", attempt, listener=listener, require_contract=True)

    assert len(listener.requests) == 1
    assert "[]" in confined[0] and "Read-only file system" in confined[0]


async def test_contract_applies_after_the_skill_is_read(tmp_path: Path) -> None:
    add_skill(tmp_path, "closed", "[needs]\nhosts = []\n")
    reading = calling("read_file", description="read", path="/mnt/skills/public//closed/./SKILL.md")
    asking = call_bash(f"curl -sS -m 5 http://{HOST}/; echo $BETA")

    async with open_listener() as listener:
        results = await run_attempts(tmp_path, "nobody", asking, reading, asking, listener=listener)

    assert results[0] == "reached the listenersecond"
    assert "second" not in results[2]
    assert listener.requests == ["/"]
