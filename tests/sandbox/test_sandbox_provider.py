"""Tools of an agent with isolation, without it, and without a sandbox."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from deerflow.agents.features import RuntimeFeatures
from deerflow.config.source import open_source
from deerflow.domain.errors import ConfigError, SandboxError
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec, Resume, RunRequest, RunStatus
from deerflow.harness import open_harness
from deerflow.testing import ScriptedModel
from tests.sandbox.processes import find_survivors, make_marker
from tests.sandbox.support import (
    OUTPUTS,
    WORK,
    act,
    ask,
    end,
    files,
    open_sandbox_harness,
    state_of,
    tool_results,
    use,
)

BASH = ["bash", "bash_output", "bash_kill"]
READ, WRITE = ["ls", "glob", "grep", "read_file"], ["write_file", "str_replace"]
WEB = ["web_search", "web_fetch"]
PLAIN = ["present_files", "ask_clarification", "list_uploaded_files", "search_history"]
BUILT_IN = [*PLAIN, "memory_search"]
CHECKS = ["verify_citations"]
"""Tools of agents that can read web pages."""


UNISOLATED = "tests.sandbox.support:UnisolatedProvider"
ON_HOST = {"use": UNISOLATED, "allow_host_bash": True}


async def list_offered_tools(home: Path, features: RuntimeFeatures | None = None, **settings: object) -> Sequence[str]:
    """Return the tools offered to the model."""
    model = ScriptedModel.saying("Hello.")
    async with open_sandbox_harness(home, model, features, **settings) as harness:
        await ask(harness)
    return model.requests[0].tool_names


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ("nowhere.at.all:Provider", "sandbox.use: cannot load 'nowhere.at.all:Provider': there is no module 'nowhere'"),
        (
            "deerflow.sandbox.local:LocalSandboxProvder",
            "sandbox.use: module 'deerflow.sandbox.local' has no 'LocalSandboxProvder'; "
            "did you mean 'LocalSandboxProvider'?",
        ),
        ("pathlib:Path", "sandbox.use: 'pathlib:Path' is a class, not a subclass of SandboxProvider"),
        ("deerflow.sandbox.tools:bash", "sandbox.use: 'deerflow.sandbox.tools:bash' is a function, not a subclass of"),
    ],
)
async def test_reports_an_invalid_provider_with_its_config_key(tmp_path: Path, use: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        async with open_sandbox_harness(tmp_path, ScriptedModel.saying(), sandbox={"use": use}):
            pass
    assert str(raised.value).startswith(message)


async def test_offers_all_tools_with_isolation(tmp_path: Path) -> None:
    assert await list_offered_tools(tmp_path) == [*WEB, *BASH, *READ, *WRITE, *BUILT_IN, *CHECKS]


async def test_offers_only_file_tools_without_isolation(tmp_path: Path) -> None:
    model = ScriptedModel.saying(
        act("bash", command="echo on the host > /tmp/escaped"),
        act("write_file", path=f"{WORK}/a.txt", content="one"),
        act("grep", path=WORK, pattern="one"),
        "Well.",
    )
    async with open_sandbox_harness(tmp_path, model, sandbox={"use": UNISOLATED}) as harness:
        assert harness.core.sandbox_report.tier == "none"
        assert (await ask(harness)).status is RunStatus.SUCCESS
        message = [answer["content"] for answer in await tool_results(harness)]
    assert model.requests[0].tool_names == [*WEB, *READ, *WRITE, *BUILT_IN, *CHECKS]
    assert "<computer>" not in model.requests[0].messages[0].text
    assert message[0].startswith("Error: there is no tool 'bash'.")
    assert message[1:] == ["OK", f"Found 1 matches under {WORK}\n{WORK}/a.txt:1: one"]


async def test_provider_without_isolation_refuses_commands(tmp_path: Path) -> None:
    source = open_source(directory=tmp_path, environment={}, overrides={"sandbox": {"use": UNISOLATED}})
    async with open_harness(source, ScriptedModel.saying()) as harness:
        sandbox = await harness.core.sandboxes.get(await harness.core.sandboxes.acquire("t", "local"))
        assert sandbox is not None
        for work in (sandbox.execute_command("true"), sandbox.start_process("job", "true")):
            with pytest.raises(SandboxError, match="`bash` is off, because commands cannot be isolated"):
                await work


async def test_runs_commands_on_the_host_if_allowed_and_tells_the_model(tmp_path: Path) -> None:
    command = f"pwd; echo result > ../outputs/r.txt; cat {OUTPUTS}/r.txt; ls /mnt/user-data"
    model = ScriptedModel.saying(act("bash", command=command), "Ok")
    async with open_sandbox_harness(tmp_path, model, sandbox=ON_HOST) as harness:
        assert harness.core.sandbox_report.tier == "host"
        await ask(harness)
        assert (await tool_results(harness))[0]["content"] == f"{WORK}\nresult\noutputs\nuploads\nworkspace"
        assert (files(tmp_path) / "outputs" / "r.txt").read_text() == "result\n"
    assert model.requests[0].tool_names == [*WEB, *BASH, *READ, *WRITE, *BUILT_IN, *CHECKS]
    assert "`bash` runs on the user's own machine, without isolation" in model.requests[0].messages[0].text


async def test_host_commands_use_skills_and_print_their_paths_in_the_sandbox(tmp_path: Path) -> None:
    scripts = tmp_path / "skills" / "custom" / "greet" / "scripts"
    scripts.mkdir(parents=True)
    (scripts.parent / "SKILL.md").write_text("---\nname: greet\ndescription: Greets.\n---\nGreet.\n")
    (scripts / "greet.sh").write_text('echo "hello from $0"; cd "$(dirname "$0")/.." && pwd; cat "$1"\n')
    skill = "/mnt/skills/custom/greet"
    commands = (
        f"echo input > in.txt; sh {skill}/scripts/greet.sh {WORK}/in.txt",
        f"cd {skill}; pwd; ls '/mnt/skills/custom'; grep -rl 'Greets\\.' /mnt/skills/custom/",
        "cat /mnt/skills/custom/none.md",
        f"python3 -c 'import sys; print(sys.argv[1])' --file={skill}/SKILL.md",
    )
    message = await use(tmp_path, *(act("bash", command=command) for command in commands), sandbox=ON_HOST)
    assert message == [
        f"hello from {skill}/scripts/greet.sh\n{skill}\ninput",
        f"{skill}\ngreet\n{skill}/SKILL.md",
        "cat: /mnt/skills/custom/none.md: No such file or directory\n[exit code 1]",
        f"--file={skill}/SKILL.md",
    ]


async def test_searches_and_runs_background_processes_on_the_host(tmp_path: Path) -> None:
    message = await use(
        tmp_path,
        act("bash", command="echo one > a.txt; echo err >&2; exit 3"),
        act("glob", path=WORK, pattern="*.txt"),
        act("bash", command="until [ -e go ]; do sleep 0.02; done; echo two > b.txt", background=True),
        act("bash", command="touch go; until [ -s b.txt ]; do sleep 0.02; done; cat b.txt"),
        sandbox=ON_HOST,
    )
    assert message[:2] == ["err\n[exit code 3]", f"Found 1 paths under {WORK}\n1. {WORK}/a.txt"]
    assert message[3] == "two"


@pytest.mark.slow
async def test_kills_a_host_command_with_its_children_after_the_timeout(tmp_path: Path) -> None:
    marker = make_marker()
    command = f"echo begun; sleep {marker} & nohup sleep {marker} >/dev/null & wait"
    [message] = await use(tmp_path, act("bash", command=command), sandbox={**ON_HOST, "bash_command_timeout": 1})
    assert message.startswith("begun\n[ended after 1 s") and message.endswith("[exit code 124]")
    assert await find_survivors(marker) == []


async def test_hides_server_variables_from_host_commands(tmp_path: Path) -> None:
    overrides = {"sandbox": {**ON_HOST, "environment": {"SHOWN": "yes"}}}
    source = open_source(directory=tmp_path, environment={"CANARY_KEY": "canary"}, overrides=overrides)
    async with open_harness(source, ScriptedModel.saying(act("bash", command="env"), "Ok")) as harness:
        await ask(harness)
        seen = (await tool_results(harness))[0]["content"]
        assert "SHOWN=yes" in seen and "canary" not in seen and "PYTEST" not in seen


async def test_runs_without_a_sandbox(tmp_path: Path) -> None:
    assert await list_offered_tools(tmp_path, RuntimeFeatures(sandbox=False)) == [*WEB, *PLAIN, *CHECKS]


async def test_offers_only_read_tools_to_a_read_only_agent(tmp_path: Path) -> None:
    model = ScriptedModel.saying("Hello.")
    async with open_sandbox_harness(tmp_path, model) as harness:
        folder = tmp_path / ".deer-flow/users/local/agents/reader"
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text('tool_groups: ["file:read"]\n')
        run = await ask(harness, AgentSpec(agent_name="reader", owner=LOCAL_USER.user_id))
        assert run.status is RunStatus.SUCCESS, run.error
    assert model.requests[0].tool_names == [*READ, *PLAIN, "update_agent", "memory_search"]
    assert "<computer>" not in model.requests[0].messages[0].text


async def test_waits_for_approval_of_a_command_if_configured(tmp_path: Path) -> None:
    tool = {"name": "bash", "group": "bash", "use": "deerflow.sandbox.tools:bash_tool", "approval": "always"}
    model = ScriptedModel.saying(act("bash", command="echo approved > a.txt; cat a.txt"), "Done.")
    async with open_sandbox_harness(tmp_path, model, tools=[tool]) as harness:
        assert (await ask(harness)).status is RunStatus.INTERRUPTED
        assert not (files(tmp_path) / "workspace/a.txt").exists()
        request = RunRequest("t", resume=Resume({"decisions": [{"type": "approve"}]}))
        async with asyncio.timeout(20):
            run = await end(harness, await harness.runs.create_or_reject(request, LOCAL_USER))
        assert run.status is RunStatus.SUCCESS, run.error
        assert (await tool_results(harness))[0]["content"] == "approved"
        assert (await state_of(harness))["messages"][-1]["content"] == "Done."
    assert sorted(model.requests[0].tool_names) == sorted([*BASH, *READ, *WRITE, *BUILT_IN])


@pytest.mark.parametrize("network", ["allowlist", "full"])
async def test_tells_the_model_which_network_commands_have(tmp_path: Path, network: str) -> None:
    model = ScriptedModel.saying("Hello.")
    async with open_sandbox_harness(
        tmp_path, model, sandbox={"network": network, "toolbox": {"enabled": False}}
    ) as harness:
        assert harness.core.sandbox_report.tier == "isolated"
        await ask(harness)
    words = {"allowlist": "The network reaches a few allowed hosts", "full": "The network can be used"}
    prompt = model.requests[0].messages[0].text
    assert words[network] in prompt and "numpy" not in prompt
