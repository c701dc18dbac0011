"""A model that tries what the contract of the active skill does not allow."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from langchain_core.messages import BaseMessage, ToolMessage

from deerflow.config.source import open_source
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import AgentSpec, RunRequest
from deerflow.harness import Harness, open_harness
from deerflow.testing import Answer, ScriptedModel, calling
from tests.skills.loopback import PORT_VARIABLE, Listener, listening

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
async def opened(folder: Path, model: ScriptedModel, listener: Listener, **sandbox: object) -> AsyncIterator[Harness]:
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


async def try_out(
    folder: Path, skill: str, *attempts: Answer, listener: Listener | None = None, **sandbox: object
) -> list[str]:
    """What each attempt came to, made after the skill was asked for by name."""
    model = ScriptedModel.saying(*attempts, "done")
    async with opened(folder, model, listener or Listener(port=9), **sandbox) as harness:
        request = RunRequest(skill, [{"type": "human", "content": f"/{skill} try"}], AgentSpec(subagent_enabled=True))
        run = await harness.runs.create_or_reject(request, LOCAL_USER)
        record = await harness.runs.join(skill, run.run_id, LOCAL_USER)
        assert record.error is None
    return results_in(model.requests[-1].messages)


def results_in(messages: Sequence[BaseMessage]) -> list[str]:
    return [message.text for message in messages if isinstance(message, ToolMessage)]


def bash(command: str) -> Answer:
    return calling("bash", description="try", command=command)


def ways_to(listener: Listener) -> list[Answer]:
    fetch = f"import urllib.request; print(urllib.request.urlopen('http://{HOST}/by-python', timeout=5).read())"
    raw = f"import socket; socket.create_connection(('127.0.0.1', {listener.port}), 3).send(b'GET /raw HTTP/1.1')"
    send = f"socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'?', ('127.0.0.1', {listener.udp_port}))"
    look_up = f"import socket; {send}; print(socket.gethostbyname('{HOST}'))"
    return [
        bash(f"curl -sS -m 5 http://{HOST}/by-curl"),
        bash(f"curl -sS -m 5 --noproxy '*' http://127.0.0.1:{listener.port}/past-the-proxy"),
        bash(f'python3 -c "{fetch}"'),
        bash(f'python3 -c "{raw}"'),
        bash(f'python3 -c "{look_up}"'),
        calling("web_fetch", url=f"http://127.0.0.1:{listener.port}/by-web-fetch"),
        calling("web_fetch", url=f"http://127.0.0.1:{listener.port}/moved"),
    ]


async def test_a_skill_that_declares_no_host_reaches_none_whatever_way_it_tries(tmp_path: Path) -> None:
    add_skill(tmp_path, "closed", "[needs]\nhosts = []\n")

    async with listening() as listener:
        results = await try_out(tmp_path, "closed", *ways_to(listener), listener=listener)

    assert listener.met == []
    assert len(results) == 7 and all("the listener was met" not in result for result in results)
    assert "declares no host, so it has no network" in results[5]
    assert "tell the user that the skill's contract (skill.toml) does not allow it" in results[5]


async def test_its_twin_that_declares_the_host_reaches_that_one_and_no_other(tmp_path: Path) -> None:
    add_skill(tmp_path, "open", f'[needs]\nhosts = ["{HOST}", "{OTHER}", "127.0.0.1"]\n')

    async with listening() as listener:
        elsewhere = calling("web_fetch", url=f"http://localhost:{listener.port}/elsewhere")
        unlisted = bash(f"curl -sS -m 5 http://{OTHER}/not-allowed-by-the-operator")
        attempts = [*ways_to(listener), elsewhere, unlisted]
        results = await try_out(tmp_path, "open", *attempts, listener=listener)

    assert listener.met == ["/by-curl", "/by-python", "/by-web-fetch", "/moved"]
    assert [("the listener was met" in result) for result in results] == [True, False, True, False, False, True] + [
        False
    ] * 3
    assert "localhost is none of the hosts that may be reached here" in results[6]
    assert f"may reach only {HOST}, {OTHER}, 127.0.0.1" in results[7]
    assert f"{OTHER} is not on the list; this sandbox reaches only: {HOST}" in results[8]


async def test_where_the_operator_gives_no_network_a_contract_gives_none_either(tmp_path: Path) -> None:
    add_skill(tmp_path, "open", f'[needs]\nhosts = ["{HOST}"]\n')

    async with listening() as listener:
        attempt = bash(f"curl -sS -m 5 http://{HOST}/")
        await try_out(tmp_path, "open", attempt, listener=listener, network="none", allowed_hosts=[])

    assert listener.met == []


async def test_undeclared_variables_are_not_seen_and_undeclared_folders_cannot_be_written_to(tmp_path: Path) -> None:
    add_skill(tmp_path, "narrow", '[needs]\nenvironment = ["ALPHA", "PATHLESS"]\npaths = ["/mnt/user-data/outputs"]\n')
    workspace, outputs = "/mnt/user-data/workspace", "/mnt/user-data/outputs"

    results = await try_out(
        tmp_path,
        "narrow",
        bash("echo [$ALPHA] [$BETA]; env | grep -c second; cat /proc/1/environ | tr '\\0' '\\n' | grep -c second"),
        bash(f"echo x > {workspace}/x; echo x > {outputs}/x && echo x > /tmp/x && cat {outputs}/x /tmp/x"),
        calling("write_file", description="try", path=f"{workspace}/y", content="y"),
        calling("write_file", description="try", path=f"{outputs}/y", content="y"),
        calling("bash", description="try", command=f"echo z > {workspace}/z", background=True, name="later"),
        bash(f"sleep 0.3; ls {workspace}/z"),
    )

    assert results[0] == "[first] []\n0\n0\n[exit code 1]"
    assert f"{workspace}/x: Read-only file system" in results[1] and results[1].endswith("x\nx")
    assert "it is read-only; write to another folder" in results[2]
    assert results[3] == "OK"
    assert "No such file or directory" in results[5]


async def test_a_key_is_seen_only_by_commands_of_the_skill_that_declares_it_and_never_told(tmp_path: Path) -> None:
    add_skill(tmp_path, "painter", '[needs]\nenvironment = ["IMAGE_API_KEY"]\n')
    look = bash("echo ${#IMAGE_API_KEY} ${#OTHER_API_KEY} ${#BETA}; echo $IMAGE_API_KEY")

    painting = await try_out(tmp_path, "painter", look)
    chatting = await try_out(tmp_path, "nobody", look)

    assert painting == ["14 0 0\n********"]
    assert chatting == ["0 0 6"]


async def test_packages_that_the_sandbox_lacks_are_told_once_in_a_sentence(tmp_path: Path) -> None:
    add_skill(tmp_path, "needy", '[needs]\npackages = ["no-such-package", "neither-this"]\n')

    results = await try_out(tmp_path, "needy", bash("echo one"), bash("echo two"))

    assert results[0].startswith("one\n[the skill 'needy' needs no-such-package, neither-this, which the sandbox's")
    assert "sandbox.toolbox.packages" in results[0]
    assert results[1] == "two"


async def test_tools_are_held_to_skill_md_and_contract_together(tmp_path: Path) -> None:
    add_skill(tmp_path, "reader", '[needs]\ntools = ["write_file", "bash"]\n', tools="bash, grep")

    results = await try_out(
        tmp_path,
        "reader",
        bash("echo allowed"),
        calling("write_file", description="try", path="/mnt/user-data/outputs/x", content="x"),
        calling("grep", description="try", pattern="x", path="/mnt/user-data/outputs"),
    )

    assert results[0] == "allowed"
    assert all("the active skill (reader) does not allow it" in result for result in results[1:])


async def test_a_budget_of_calls_and_of_time_ends_the_work_and_the_model_is_told(tmp_path: Path) -> None:
    add_skill(tmp_path, "brief", "[budget]\nmax_tool_calls = 1\n")
    add_skill(tmp_path, "hasty", "[budget]\nseconds = 0.7\n")
    look = calling("ls", description="look", path="/mnt/user-data/outputs")

    by_calls = await try_out(tmp_path, "brief", bash("echo one"), bash("echo two"), look)
    by_time = await try_out(tmp_path, "hasty", bash("echo one; sleep 60"), bash("echo two"), look)

    assert by_calls[0] == "one" and by_calls[2] == "(empty)"
    assert "bash was not called: the skill 'brief' may call 1 tools, and has. Finish with what you have" in by_calls[1]
    assert "bash was ended: the skill 'hasty' may be active for 0.7 s, and these are over" in by_time[0]
    assert "bash was not called" in by_time[1] and by_time[2] == "(empty)"


async def test_whoever_is_given_work_while_a_skill_is_active_is_held_to_its_contract_too(tmp_path: Path) -> None:
    add_skill(tmp_path, "closed", "[needs]\nhosts = []\n")
    give = calling("task", description="try", prompt="try it", subagent_type="general-purpose")

    async with listening() as listener:
        results = await try_out(
            tmp_path, "closed", give, bash(f"curl -sS -m 5 http://{HOST}/; echo $BETA."), "tried", listener=listener
        )

    assert listener.met == []
    assert "tried" in results[0]


async def test_where_everyone_must_have_a_contract_a_skill_without_one_has_nothing(tmp_path: Path) -> None:
    add_skill(tmp_path, "silent", "")
    attempt = bash(f"curl -sS -m 5 http://{HOST}/; echo [$ALPHA]; touch /mnt/user-data/outputs/x")

    async with listening() as listener:
        free = await try_out(tmp_path, "silent", attempt, listener=listener)
        assert (free, listener.met) == (["the listener was met[first]"], ["/"])
        (tmp_path / ".deer-flow").rename(tmp_path / "before")
        held = await try_out(tmp_path, "silent", attempt, listener=listener, require_contract=True)

    assert len(listener.met) == 1
    assert "[]" in held[0] and "Read-only file system" in held[0]


async def test_a_skill_that_is_read_becomes_active_and_one_that_is_not_narrows_nothing(tmp_path: Path) -> None:
    add_skill(tmp_path, "closed", "[needs]\nhosts = []\n")
    reading = calling("read_file", description="read", path="/mnt/skills/public//closed/./SKILL.md")
    asking = bash(f"curl -sS -m 5 http://{HOST}/; echo $BETA")

    async with listening() as listener:
        results = await try_out(tmp_path, "nobody", asking, reading, asking, listener=listener)

    assert results[0] == "the listener was metsecond"
    assert "second" not in results[2]
    assert listener.met == ["/"]
