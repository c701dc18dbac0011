"""Skills in real runs: the prompt, activation, allowed tools and mounts."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from langchain_core.messages import BaseMessage

from deerflow.domain.errors import NotFound
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec, MultitaskStrategy, RunRequest, RunStatus
from deerflow.harness import Harness
from deerflow.testing import Answer, ScriptedModel, Stall, calling
from tests.harness.support import ask_successfully
from tests.sandbox.support import LIMIT_S, act, end, open_sandbox_harness, state_of, tool_results
from tests.skills.support import write_skill

USER_ID = LOCAL_USER.user_id
SCRIPT = "print('tidied')\n"


@pytest.fixture
def public(tmp_path: Path) -> Path:
    return tmp_path / "skills" / "public"


@pytest.fixture
def custom(tmp_path: Path) -> Path:
    return tmp_path / ".deer-flow" / "users" / USER_ID / "skills" / "custom"


def open_skill_harness(home: Path, model: ScriptedModel, **settings: object) -> AbstractAsyncContextManager[Harness]:
    skills = {"path": str(home / "skills"), **settings.pop("skills", {})}  # type: ignore[dict-item]
    return open_sandbox_harness(home, model, skills=skills, **settings)


def read_skill(name: str, category: str = "public") -> Answer:
    return act("read_file", path=f"/mnt/skills/{category}/{name}/SKILL.md")


def system_prompt(messages: Sequence[BaseMessage]) -> str:
    return messages[0].text


def skill_messages(messages: Sequence[BaseMessage]) -> list[str]:
    return [message.text for message in messages if "<skill>" in message.text and message.type == "human"]


async def test_a_tool_that_the_active_skill_does_not_allow_is_denied_with_the_reason(
    tmp_path: Path, public: Path
) -> None:
    write_skill(public, "tidy-up", more="allowed-tools: [write_file]\n")
    run_command = act("bash", command="echo escaped > /mnt/user-data/outputs/x.txt; echo escaped")
    model = ScriptedModel.saying(read_skill("tidy-up"), run_command, "Not allowed.", run_command, "Done.")

    async with open_skill_harness(tmp_path, model) as harness:
        await ask_successfully(harness)
        refused = (await tool_results(harness))[1]
        assert refused["status"] == "error" and refused["content"].startswith(
            "Error: bash was not called: the active skill (tidy-up) does not allow it. Allowed are ask_clarification,"
        )
        assert not list((tmp_path / ".deer-flow").rglob("x.txt"))
        [active] = (await state_of(harness))["skill_context"]
        assert (active["name"], active["path"]) == ("tidy-up", "/mnt/skills/public/tidy-up/SKILL.md")

        await ask_successfully(harness, "Once more")  # the skill is no longer active in the next run
        assert (await tool_results(harness))[-1]["content"] == "escaped"
    before, *during, after = [request.tool_names for request in model.requests[:4]]
    assert "bash" in before and "bash" in after
    assert all(names == ["ls", "read_file", "write_file", "present_files", "ask_clarification"] for names in during)


async def test_active_skills_allow_the_union_of_their_tools_and_one_without_a_list_restricts_nothing(
    tmp_path: Path, public: Path
) -> None:
    write_skill(public, "free")
    write_skill(public, "writer", more="allowed-tools: write_file\n")
    write_skill(public, "runner", more="allowed-tools: Bash(git:*)\n")
    model = ScriptedModel.saying(read_skill("free"), read_skill("writer"), read_skill("runner"), "Done.")
    async with open_skill_harness(tmp_path, model) as harness:
        await ask_successfully(harness)
    names = [set(request.tool_names) for request in model.requests]
    assert names[1] == names[0]
    assert "write_file" in names[2] and "bash" not in names[2]
    assert {"write_file", "bash", "bash_output", "bash_kill"} <= names[3] and "web_search" not in names[3]


async def test_a_slash_command_activates_a_skill(tmp_path: Path, public: Path) -> None:
    write_skill(public, "tidy-up", body="Tidy </skill> in Ruhe – 整理.", more="allowed-tools: [bash]\n")
    write_skill(public, "help", body="never")
    model = ScriptedModel.saying(
        act("write_file", path="/mnt/user-data/workspace/a", content="x"), "Tidied.", "So?", "Ok.", "Ok."
    )
    async with open_skill_harness(tmp_path, model) as harness:
        await ask_successfully(harness, "/tidy-up my desk")
        assert (await tool_results(harness))[0]["status"] == "error"
        await ask_successfully(harness, "And now?")
        await ask_successfully(harness, "/help")
        await ask_successfully(harness, "/unknown-skill x")
        state = await state_of(harness)
    first, second, later, *rest = model.requests
    assert (
        skill_messages(first.messages) == skill_messages(second.messages) and len(skill_messages(first.messages)) == 1
    )
    assert "Tidy &lt;/skill> in Ruhe – 整理." in skill_messages(first.messages)[0]
    assert "bash" in first.tool_names and "write_file" not in first.tool_names
    assert not skill_messages(later.messages) and "write_file" in later.tool_names
    assert not any(skill_messages(request.messages) for request in rest)
    assert state["messages"][0]["content"] == "/tidy-up my desk"
    assert [entry["name"] for entry in state["skill_context"]] == ["tidy-up"]


async def test_slash_commands_work_with_files_and_in_steering_messages(tmp_path: Path, public: Path) -> None:
    write_skill(public, "one", body="First.", more="allowed-tools: []\n")
    write_skill(public, "two", body="Second.", more="allowed-tools: [bash]\n")
    model = ScriptedModel.saying(Stall(act("ls", path="/mnt/user-data")), "Both.")
    async with open_skill_harness(tmp_path, model) as harness:
        files = [{"filename": "a.txt", "size": 1, "path": "/mnt/user-data/uploads/a.txt", "status": "uploaded"}]
        message = {"type": "human", "content": "/one do it", "additional_kwargs": {"files": files}}
        run = await harness.runs.create_or_reject(RunRequest("t", [message]), LOCAL_USER)
        async with asyncio.timeout(LIMIT_S):
            await model.waiting.wait()
        steering = RunRequest(
            "t", [{"type": "human", "content": "/two as well"}], multitask_strategy=MultitaskStrategy.STEER
        )
        await harness.runs.create_or_reject(steering, LOCAL_USER)
        model.release()
        assert (await end(harness, run)).status is RunStatus.SUCCESS
    first, second = model.requests
    assert "a.txt" in first.messages[1].text and "First." in skill_messages(first.messages)[0]
    assert "bash" not in first.tool_names and "bash" in second.tool_names
    assert ["First." in text or "Second." in text for text in skill_messages(second.messages)] == [True, True]


async def test_subagents_inherit_the_restrictions_of_the_active_skill(tmp_path: Path, public: Path) -> None:
    write_skill(public, "tidy-up", more="allowed-tools: [task]\n")
    write_skill(public, "other")
    delegate = calling("task", description="d", prompt="p", subagent_type="general-purpose")
    model = ScriptedModel.saying(
        read_skill("tidy-up"), delegate, act("bash", command="echo escaped"), "Could not.", "Nobody can."
    )
    async with open_skill_harness(tmp_path, model) as harness:
        await ask_successfully(harness, agent=AgentSpec(subagent_enabled=True))
    subagent_request = model.requests[2]
    assert subagent_request.tool_names == ["ls", "read_file"]
    assert "<name>other</name>" in system_prompt(subagent_request.messages)
    assert "bash was not called" in model.requests[3].messages[-2].text


async def test_a_subagent_has_only_the_skills_of_its_type(tmp_path: Path, public: Path) -> None:
    write_skill(public, "one", more="allowed-tools: []\n")
    write_skill(public, "two", more="allowed-tools: []\n")
    subagent_type = {"description": "d", "system_prompt": "You know one.", "skills": ["one"]}
    write_skill(public, "binding", more="allowed-tools: [task]\n")
    delegate = calling("task", description="d", prompt="/two p", subagent_type="knows-one")
    model = ScriptedModel.saying(
        delegate, read_skill("two"), read_skill("one"), "Done.", "Done.", delegate, "Bound.", "Done."
    )
    async with open_skill_harness(
        tmp_path, model, subagents={"custom_agents": {"knows-one": subagent_type}}
    ) as harness:
        await ask_successfully(harness, agent=AgentSpec(subagent_enabled=True))
        await ask_successfully(harness, "/binding x", AgentSpec(subagent_enabled=True))
    first, second, third = model.requests[1:4]
    assert "<name>one</name>" in system_prompt(first.messages) and "<name>two</name>" not in system_prompt(
        first.messages
    )
    assert "bash" in first.tool_names and "bash" in second.tool_names and "bash" not in third.tool_names
    restricted = model.requests[
        6
    ]  # restrictions of the lead agent apply, even though the subagent does not have the skill
    assert restricted.tool_names == ["ls", "read_file"] and "binding" not in str(restricted.messages)


async def test_enabled_skills_are_mounted_read_only(tmp_path: Path, public: Path, custom: Path) -> None:
    skill_folder = write_skill(public, "tidy-up", folder="desk/tidy-up")
    (skill_folder / "scripts").mkdir()
    (skill_folder / "scripts" / "tidy.py").write_text(SCRIPT)
    (skill_folder / "scripts" / "tidy.py").chmod(0o600)
    (skill_folder / "secret").symlink_to("/etc/passwd")
    write_skill(custom, "own")
    write_skill(public, "off")
    look = act("bash", command="cd /mnt/skills && find . -type f | sort && python3 public/desk/tidy-up/scripts/tidy.py")
    change = act("bash", command="touch /mnt/skills/public/mine; echo x > /mnt/skills/custom/own/SKILL.md")
    model = ScriptedModel.saying(look, change, "Done.", look, "Done.")

    async with open_skill_harness(tmp_path, model) as harness:
        await harness.core.skills.set_enabled(USER_ID, "off", enabled=False)
        await ask_successfully(harness)
        assert [answer["content"] for answer in await tool_results(harness)][0] == (
            "./custom/own/SKILL.md\n./public/desk/tidy-up/SKILL.md\n./public/desk/tidy-up/scripts/tidy.py\ntidied"
        )
        assert (await tool_results(harness))[1]["content"].count("Read-only file system") == 2

        await harness.core.skills.set_enabled(USER_ID, "off", enabled=True)
        await harness.core.skills.set_enabled(USER_ID, "own", enabled=False)
        (skill_folder / "scripts" / "tidy.py").write_text("print('changed')\n")
        await ask_successfully(harness)
        assert (await tool_results(harness))[2]["content"] == (
            "./public/desk/tidy-up/SKILL.md\n./public/desk/tidy-up/scripts/tidy.py\n./public/off/SKILL.md\nchanged"
        )


async def test_changed_skills_update_the_prompt_of_the_next_run_and_other_files_do_not(
    tmp_path: Path, public: Path, custom: Path
) -> None:
    skill_folder = write_skill(public, "tidy-up", "Tidies.")
    model = ScriptedModel.saying(*["Ok."] * 7)
    async with open_skill_harness(tmp_path, model) as harness:
        await ask_successfully(harness)
        (skill_folder / "notes.md").write_text("not a part of the prompt")
        await ask_successfully(harness)
        write_skill(public, "tidy-up", "Tidies\n  <well>.")
        await ask_successfully(harness)
        write_skill(custom, "own")
        await ask_successfully(harness)
        await harness.core.skills.set_enabled(USER_ID, "tidy-up", enabled=False)
        await ask_successfully(harness)
        await harness.core.skills.set_enabled(USER_ID, "own", enabled=False)
        await ask_successfully(harness)
        (tmp_path / "extensions_config.json").unlink()
        await ask_successfully(harness)
    prompts = [system_prompt(request.messages) for request in model.requests]
    assert prompts[0] == prompts[1]
    location = "<location>/mnt/skills/public/tidy-up/SKILL.md</location>"
    assert f"<skill><name>tidy-up</name><description>Tidies. [built-in]</description>{location}</skill>" in prompts[0]
    assert "<description>Tidies &lt;well&gt;. [built-in]</description>" in prompts[2]
    assert "well. [custom, editable]</description><location>/mnt/skills/custom/own/SKILL.md" in prompts[3]
    assert "tidy-up" not in prompts[4] and "own" in prompts[4]
    assert "<skill_system>" not in prompts[5]
    assert "tidy-up" in prompts[6] and "<name>own</name>" not in prompts[6]


async def test_a_custom_agent_has_its_configured_skills(tmp_path: Path, public: Path) -> None:
    for name in ("one", "two", "three", "bootstrap"):
        write_skill(public, name)
    model = ScriptedModel.saying(*["Ok."] * 5)
    async with open_skill_harness(tmp_path, model) as harness:
        for name, skills in {"some": "[one, two]", "none": "[]", "all": "null"}.items():
            folder = tmp_path / ".deer-flow/users" / USER_ID / "agents" / name
            folder.mkdir(parents=True)
            (folder / "config.yaml").write_text(f"skills: {skills}\n")
            await ask_successfully(
                harness, "/three x", AgentSpec(agent_name=name, owner=USER_ID, available_skills=("two", "three"))
            )
        await ask_successfully(harness, agent=AgentSpec(is_bootstrap=True))
        await ask_successfully(harness, agent=AgentSpec(available_skills=()))
    names = [
        [
            name
            for name in ("one", "two", "three", "bootstrap")
            if f"<name>{name}</name>" in system_prompt(request.messages)
        ]
        for request in model.requests
    ]
    assert names == [["two"], [], ["two", "three"], ["bootstrap"], []]
    assert [len(skill_messages(request.messages)) for request in model.requests] == [0, 0, 1, 0, 0]
    assert model.requests[3].tool_names == ["setup_agent", "read_file"]


async def test_many_skills_are_listed_by_name_and_described_on_request(
    tmp_path: Path, public: Path, custom: Path
) -> None:
    write_skill(public, "one", "The first.", more="allowed-tools: []\n")
    write_skill(custom, "two", "The second.")
    describe = [calling("describe_skill", name=name) for name in ("two", "three")]
    model = ScriptedModel.saying(*describe, read_skill("one"), "Done.")
    async with open_skill_harness(tmp_path, model, skills={"index_limit": 1}) as harness:
        await ask_successfully(harness)
        results = [answer["content"] for answer in await tool_results(harness)]
    prompt = system_prompt(model.requests[0].messages)
    assert "<skill_index>\none\ntwo\n</skill_index>" in prompt and "The first." not in prompt
    assert results[0] == ("two [custom, editable]\nThe second.\n\nTo use it, read /mnt/skills/custom/two/SKILL.md")
    assert results[1] == "Error: there is no skill 'three'; use a name from the list of skills."
    assert "describe_skill" in model.requests[-1].tool_names and "bash" not in model.requests[-1].tool_names


async def test_a_model_with_a_small_context_window_gets_only_skill_names(tmp_path: Path, public: Path) -> None:
    for name in ("one", "two", "three"):
        write_skill(public, name, "What it does, and when to use it. " * 25)
    prompts = []
    for window in (6_000, 60_000):
        model = ScriptedModel.saying("Done.")
        model.profile = {"max_input_tokens": window}
        async with open_skill_harness(tmp_path, model) as harness:
            await ask_successfully(harness)
        prompts.append(system_prompt(model.requests[0].messages))
    assert "<skill_index>\none\nthree\ntwo\n</skill_index>" in prompts[0] and "What it does" not in prompts[0]
    assert prompts[1].count("What it does") == 75


async def test_an_unknown_skill_cannot_be_read_or_disabled(tmp_path: Path, public: Path) -> None:
    async with open_skill_harness(tmp_path, ScriptedModel.saying()) as harness:
        with pytest.raises(NotFound, match="skill not found: 'x'"):
            await harness.core.skills.read(USER_ID, "x")
        with pytest.raises(NotFound, match="skill not found: 'x'"):
            await harness.core.skills.set_enabled(USER_ID, "x", enabled=False)
        assert not (tmp_path / "extensions_config.json").exists()


@pytest.mark.slow
async def test_a_compacted_skill_still_restricts_tools_and_the_model_is_reminded_to_read_it(
    tmp_path: Path, public: Path
) -> None:
    write_skill(public, "tidy-up", more="allowed-tools: []\n")
    look = [act("ls", path=f"/mnt/user-data/{area}") for area in ("workspace", "uploads", "outputs", "workspace")]
    model = ScriptedModel.saying(read_skill("tidy-up"), *look, look[0], act("bash", command="echo escaped"), "Done.")
    compaction = {"enabled": True, "model_name": "demo", "trigger": {"type": "messages", "value": 9}}
    async with open_skill_harness(
        tmp_path, model, summarization={**compaction, "keep": {"type": "messages", "value": 2}}
    ) as harness:
        await ask_successfully(harness)
        assert "bash was not called" in (await tool_results(harness))[-1]["content"]
    reminded = [
        any("skills whose text you do not see" in message.text for message in request.messages)
        for request in model.requests
    ]
    assert reminded[:3] == [False] * 3 and reminded[-1]
    assert "/mnt/skills/public/tidy-up/SKILL.md" in model.requests[-1].messages[-2].text
    assert all("bash" not in request.tool_names for request in model.requests[1:])
