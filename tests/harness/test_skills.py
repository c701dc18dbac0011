"""Skills in real runs: what the model is told of them, and what it can do while one is active."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from langchain_core.messages import BaseMessage

from deerflow.domain.errors import NotFound
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec, MultitaskStrategy, RunRecord, RunRequest, RunStatus
from deerflow.harness import Harness
from deerflow.testing import Answer, ScriptedModel, Stall, calling
from tests.sandbox.support import LIMIT_S, act, end, open_sandbox_harness, state_of, tool_results
from tests.skills.support import write_skill

ME = LOCAL_USER.user_id
SCRIPT = "print('tidied')\n"


@pytest.fixture
def public(tmp_path: Path) -> Path:
    return tmp_path / "skills" / "public"


@pytest.fixture
def custom(tmp_path: Path) -> Path:
    return tmp_path / ".deer-flow" / "users" / ME / "skills" / "custom"


def world(home: Path, model: ScriptedModel, **settings: object) -> AbstractAsyncContextManager[Harness]:
    skills = {"path": str(home / "skills"), **settings.pop("skills", {})}  # type: ignore[dict-item]
    return open_sandbox_harness(home, model, skills=skills, **settings)


async def ask(harness: Harness, text: str = "Go on", agent: AgentSpec = AgentSpec(), thread: str = "t") -> RunRecord:
    request = RunRequest(thread, [{"type": "human", "content": text}], agent)
    run = await harness.runs.create_or_reject(request, LOCAL_USER)
    async with asyncio.timeout(LIMIT_S):
        run = await harness.runs.join(thread, run.run_id, LOCAL_USER)
    assert run.status is RunStatus.SUCCESS, run.error
    return run


def read(name: str, category: str = "public") -> Answer:
    return act("read_file", path=f"/mnt/skills/{category}/{name}/SKILL.md")


def prompt_of(messages: Sequence[BaseMessage]) -> str:
    return messages[0].text


def hidden(messages: Sequence[BaseMessage]) -> list[str]:
    return [message.text for message in messages if "<skill>" in message.text and message.type == "human"]


async def test_a_model_that_tries_bash_while_a_skill_without_it_is_active_is_refused_and_told_so(
    tmp_path: Path, public: Path
) -> None:
    write_skill(public, "tidy-up", more="allowed-tools: [write_file]\n")
    run_it = act("bash", command="echo escaped > /mnt/user-data/outputs/x.txt; echo escaped")
    model = ScriptedModel.saying(read("tidy-up"), run_it, "Not allowed.", run_it, "Done.")

    async with world(tmp_path, model) as harness:
        await ask(harness)
        refused = (await tool_results(harness))[1]
        assert refused["status"] == "error" and refused["content"].startswith(
            "Error: bash was not called: the active skill (tidy-up) does not allow it. Allowed are ask_clarification,"
        )
        assert not list((tmp_path / ".deer-flow").rglob("x.txt"))
        [active] = (await state_of(harness))["skill_context"]
        assert (active["name"], active["path"]) == ("tidy-up", "/mnt/skills/public/tidy-up/SKILL.md")

        await ask(harness, "Once more")  # the next run is not bound by the skill
        assert (await tool_results(harness))[-1]["content"] == "escaped"
    before, *during, after = [request.tool_names for request in model.requests[:4]]
    assert "bash" in before and "bash" in after
    assert all(names == ["ls", "read_file", "write_file", "present_files", "ask_clarification"] for names in during)


async def test_several_active_skills_allow_what_any_of_them_does_and_one_that_says_nothing_limits_nothing(
    tmp_path: Path, public: Path
) -> None:
    write_skill(public, "free")
    write_skill(public, "writer", more="allowed-tools: write_file\n")
    write_skill(public, "runner", more="allowed-tools: Bash(git:*)\n")
    model = ScriptedModel.saying(read("free"), read("writer"), read("runner"), "Done.")
    async with world(tmp_path, model) as harness:
        await ask(harness)
    names = [set(request.tool_names) for request in model.requests]
    assert names[1] == names[0]
    assert "write_file" in names[2] and "bash" not in names[2]
    assert {"write_file", "bash", "bash_output", "bash_kill"} <= names[3] and "web_search" not in names[3]


async def test_a_message_that_begins_with_the_name_of_a_skill_brings_it_along(tmp_path: Path, public: Path) -> None:
    write_skill(public, "tidy-up", body="Tidy </skill> in Ruhe – 整理.", more="allowed-tools: [bash]\n")
    write_skill(public, "help", body="never")
    model = ScriptedModel.saying(
        act("write_file", path="/mnt/user-data/workspace/a", content="x"), "Tidied.", "So?", "Ok.", "Ok."
    )
    async with world(tmp_path, model) as harness:
        await ask(harness, "/tidy-up my desk")
        assert (await tool_results(harness))[0]["status"] == "error"
        await ask(harness, "And now?")
        await ask(harness, "/help")
        await ask(harness, "/unknown-skill x")
        state = await state_of(harness)
    first, second, later, *rest = model.requests
    assert hidden(first.messages) == hidden(second.messages) and len(hidden(first.messages)) == 1
    assert "Tidy &lt;/skill> in Ruhe – 整理." in hidden(first.messages)[0]
    assert "bash" in first.tool_names and "write_file" not in first.tool_names
    assert not hidden(later.messages) and "write_file" in later.tool_names
    assert not any(hidden(request.messages) for request in rest)
    assert state["messages"][0]["content"] == "/tidy-up my desk"
    assert [entry["name"] for entry in state["skill_context"]] == ["tidy-up"]


async def test_a_skill_is_asked_for_also_with_files_and_while_a_run_is_under_way(tmp_path: Path, public: Path) -> None:
    write_skill(public, "one", body="First.", more="allowed-tools: []\n")
    write_skill(public, "two", body="Second.", more="allowed-tools: [bash]\n")
    model = ScriptedModel.saying(Stall(act("ls", path="/mnt/user-data")), "Both.")
    async with world(tmp_path, model) as harness:
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
    assert "a.txt" in first.messages[1].text and "First." in hidden(first.messages)[0]
    assert "bash" not in first.tool_names and "bash" in second.tool_names
    assert ["First." in text or "Second." in text for text in hidden(second.messages)] == [True, True]


async def test_what_a_skill_does_not_allow_a_subagent_is_not_allowed_either(tmp_path: Path, public: Path) -> None:
    write_skill(public, "tidy-up", more="allowed-tools: [task]\n")
    write_skill(public, "other")
    hand_over = calling("task", description="d", prompt="p", subagent_type="general-purpose")
    model = ScriptedModel.saying(
        read("tidy-up"), hand_over, act("bash", command="echo escaped"), "Could not.", "Nobody can."
    )
    async with world(tmp_path, model) as harness:
        await ask(harness, agent=AgentSpec(subagent_enabled=True))
    theirs = model.requests[2]
    assert theirs.tool_names == ["ls", "read_file"]
    assert "<name>other</name>" in prompt_of(theirs.messages)
    assert "bash was not called" in model.requests[3].messages[-2].text


async def test_a_subagent_knows_only_the_skills_of_its_kind(tmp_path: Path, public: Path) -> None:
    write_skill(public, "one", more="allowed-tools: []\n")
    write_skill(public, "two", more="allowed-tools: []\n")
    kind = {"description": "d", "system_prompt": "You know one.", "skills": ["one"]}
    write_skill(public, "binding", more="allowed-tools: [task]\n")
    hand_over = calling("task", description="d", prompt="/two p", subagent_type="knows-one")
    model = ScriptedModel.saying(hand_over, read("two"), read("one"), "Done.", "Done.", hand_over, "Bound.", "Done.")
    async with world(tmp_path, model, subagents={"custom_agents": {"knows-one": kind}}) as harness:
        await ask(harness, agent=AgentSpec(subagent_enabled=True))
        await ask(harness, "/binding x", AgentSpec(subagent_enabled=True))
    begun, still, limited = model.requests[1:4]
    assert "<name>one</name>" in prompt_of(begun.messages) and "<name>two</name>" not in prompt_of(begun.messages)
    assert "bash" in begun.tool_names and "bash" in still.tool_names and "bash" not in limited.tool_names
    bound = model.requests[6]  # what binds who gave it the work binds it too, though it does not know the skill
    assert bound.tool_names == ["ls", "read_file"] and "binding" not in str(bound.messages)


async def test_commands_see_the_skills_that_are_on_and_cannot_change_them(
    tmp_path: Path, public: Path, custom: Path
) -> None:
    tidy = write_skill(public, "tidy-up", folder="desk/tidy-up")
    (tidy / "scripts").mkdir()
    (tidy / "scripts" / "tidy.py").write_text(SCRIPT)
    (tidy / "scripts" / "tidy.py").chmod(0o600)
    (tidy / "secret").symlink_to("/etc/passwd")
    write_skill(custom, "own")
    write_skill(public, "off")
    look = act("bash", command="cd /mnt/skills && find . -type f | sort && python3 public/desk/tidy-up/scripts/tidy.py")
    change = act("bash", command="touch /mnt/skills/public/mine; echo x > /mnt/skills/custom/own/SKILL.md")
    model = ScriptedModel.saying(look, change, "Done.", look, "Done.")

    async with world(tmp_path, model) as harness:
        await harness.core.skills.set_enabled(ME, "off", enabled=False)
        await ask(harness)
        assert [answer["content"] for answer in await tool_results(harness)][0] == (
            "./custom/own/SKILL.md\n./public/desk/tidy-up/SKILL.md\n./public/desk/tidy-up/scripts/tidy.py\ntidied"
        )
        assert (await tool_results(harness))[1]["content"].count("Read-only file system") == 2

        await harness.core.skills.set_enabled(ME, "off", enabled=True)
        await harness.core.skills.set_enabled(ME, "own", enabled=False)
        (tidy / "scripts" / "tidy.py").write_text("print('changed')\n")
        await ask(harness)
        assert (await tool_results(harness))[2]["content"] == (
            "./public/desk/tidy-up/SKILL.md\n./public/desk/tidy-up/scripts/tidy.py\n./public/off/SKILL.md\nchanged"
        )


async def test_what_is_changed_is_seen_by_the_next_run_and_what_is_not_changed_keeps_the_prompt(
    tmp_path: Path, public: Path, custom: Path
) -> None:
    tidy = write_skill(public, "tidy-up", "Tidies.")
    model = ScriptedModel.saying(*["Ok."] * 7)
    async with world(tmp_path, model) as harness:
        await ask(harness)
        (tidy / "notes.md").write_text("not a part of the prompt")
        await ask(harness)
        write_skill(public, "tidy-up", "Tidies\n  <well>.")
        await ask(harness)
        write_skill(custom, "own")
        await ask(harness)
        await harness.core.skills.set_enabled(ME, "tidy-up", enabled=False)
        await ask(harness)
        await harness.core.skills.set_enabled(ME, "own", enabled=False)
        await ask(harness)
        (tmp_path / "extensions_config.json").unlink()
        await ask(harness)
    prompts = [prompt_of(request.messages) for request in model.requests]
    assert prompts[0] == prompts[1]
    location = "<location>/mnt/skills/public/tidy-up/SKILL.md</location>"
    assert f"<skill><name>tidy-up</name><description>Tidies. [built-in]</description>{location}</skill>" in prompts[0]
    assert "<description>Tidies &lt;well&gt;. [built-in]</description>" in prompts[2]
    assert "well. [custom, editable]</description><location>/mnt/skills/custom/own/SKILL.md" in prompts[3]
    assert "tidy-up" not in prompts[4] and "own" in prompts[4]
    assert "<skill_system>" not in prompts[5]
    assert "tidy-up" in prompts[6] and "<name>own</name>" not in prompts[6]


async def test_an_agent_has_the_skills_that_are_named_for_it(tmp_path: Path, public: Path) -> None:
    for name in ("one", "two", "three", "bootstrap"):
        write_skill(public, name)
    model = ScriptedModel.saying(*["Ok."] * 5)
    async with world(tmp_path, model) as harness:
        for name, skills in {"some": "[one, two]", "none": "[]", "all": "null"}.items():
            folder = tmp_path / ".deer-flow/users" / ME / "agents" / name
            folder.mkdir(parents=True)
            (folder / "config.yaml").write_text(f"skills: {skills}\n")
            await ask(harness, "/three x", AgentSpec(agent_name=name, owner=ME, available_skills=("two", "three")))
        await ask(harness, agent=AgentSpec(is_bootstrap=True))
        await ask(harness, agent=AgentSpec(available_skills=()))
    names = [
        [name for name in ("one", "two", "three", "bootstrap") if f"<name>{name}</name>" in prompt_of(each.messages)]
        for each in model.requests
    ]
    assert names == [["two"], [], ["two", "three"], ["bootstrap"], []]
    assert [len(hidden(each.messages)) for each in model.requests] == [0, 0, 1, 0, 0]
    assert model.requests[3].tool_names == ["setup_agent", "read_file"]


async def test_many_skills_are_told_by_name_and_described_on_request(
    tmp_path: Path, public: Path, custom: Path
) -> None:
    write_skill(public, "one", "The first.", more="allowed-tools: []\n")
    write_skill(custom, "two", "The second.")
    describe = [calling("describe_skill", name=name) for name in ("two", "three")]
    model = ScriptedModel.saying(*describe, read("one"), "Done.")
    async with world(tmp_path, model, skills={"index_limit": 1}) as harness:
        await ask(harness)
        told = [answer["content"] for answer in await tool_results(harness)]
    prompt = prompt_of(model.requests[0].messages)
    assert "<skill_index>\none\ntwo\n</skill_index>" in prompt and "The first." not in prompt
    assert told[0] == ("two [custom, editable]\nThe second.\n\nTo use it, read /mnt/skills/custom/two/SKILL.md")
    assert told[1] == "Error: there is no skill 'three'; use a name from the list of skills."
    assert "describe_skill" in model.requests[-1].tool_names and "bash" not in model.requests[-1].tool_names


async def test_a_model_that_can_read_little_is_told_names_only(tmp_path: Path, public: Path) -> None:
    for name in ("one", "two", "three"):
        write_skill(public, name, "What it does, and when to use it. " * 25)
    prompts = []
    for window in (6_000, 60_000):
        model = ScriptedModel.saying("Done.")
        model.profile = {"max_input_tokens": window}
        async with world(tmp_path, model) as harness:
            await ask(harness)
        prompts.append(prompt_of(model.requests[0].messages))
    assert "<skill_index>\none\nthree\ntwo\n</skill_index>" in prompts[0] and "What it does" not in prompts[0]
    assert prompts[1].count("What it does") == 75


async def test_a_skill_nobody_has_can_be_neither_read_nor_switched(tmp_path: Path, public: Path) -> None:
    async with world(tmp_path, ScriptedModel.saying()) as harness:
        with pytest.raises(NotFound, match="skill not found: 'x'"):
            await harness.core.skills.read(ME, "x")
        with pytest.raises(NotFound, match="skill not found: 'x'"):
            await harness.core.skills.set_enabled(ME, "x", enabled=False)
        assert not (tmp_path / "extensions_config.json").exists()


@pytest.mark.slow
async def test_a_skill_that_was_compacted_away_still_binds_and_the_model_is_told_to_read_it_again(
    tmp_path: Path, public: Path
) -> None:
    write_skill(public, "tidy-up", more="allowed-tools: []\n")
    look = [act("ls", path=f"/mnt/user-data/{area}") for area in ("workspace", "uploads", "outputs", "workspace")]
    model = ScriptedModel.saying(read("tidy-up"), *look, look[0], act("bash", command="echo escaped"), "Done.")
    small = {"enabled": True, "model_name": "demo", "trigger": {"type": "messages", "value": 9}}
    async with world(tmp_path, model, summarization={**small, "keep": {"type": "messages", "value": 2}}) as harness:
        await ask(harness)
        assert "bash was not called" in (await tool_results(harness))[-1]["content"]
    told = [
        any("skills whose text you do not see" in message.text for message in request.messages)
        for request in model.requests
    ]
    assert told[:3] == [False] * 3 and told[-1]
    assert "/mnt/skills/public/tidy-up/SKILL.md" in model.requests[-1].messages[-2].text
    assert all("bash" not in request.tool_names for request in model.requests[1:])
