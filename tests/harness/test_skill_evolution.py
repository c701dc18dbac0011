"""Skill evolution in real runs: agents create and change skills, which are reviewed and recorded."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import orjson
import pytest
from langchain_core.messages import BaseMessage

from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec
from deerflow.domain.usage import LEAD_AGENT, SKILL_REVIEW
from deerflow.harness import Harness
from deerflow.testing import Answer, ScriptedModel, calling
from tests.harness.support import ask_successfully
from tests.sandbox.support import open_sandbox_harness, tool_results
from tests.skills.support import ALLOW, build_skill_md, write_skill

ME = LOCAL_USER.user_id
REVIEW_BLOCKS = '{"decision": "block", "reason": "It reads what it should not."}'


def open_skill_harness(
    home: Path, model: ScriptedModel, *, enabled: bool = True
) -> AbstractAsyncContextManager[Harness]:
    return open_sandbox_harness(
        home, model, skills={"path": str(home / "skills")}, skill_evolution={"enabled": enabled}
    )


def skill_manage_call(action: str, **arguments: object) -> Answer:
    return calling("skill_manage", action=action, name="sample", **arguments)


def custom_skill_path(home: Path, path: str = "") -> Path:
    return home / ".deer-flow" / "users" / ME / "skills" / "custom" / "sample" / path


async def read_tool_results(harness: Harness) -> list[str]:
    return [answer["content"] for answer in await tool_results(harness)]


async def test_a_skill_created_by_an_agent_is_reviewed_recorded_and_available_in_the_next_run(tmp_path: Path) -> None:
    prompts: list[str] = []

    def record_prompt(messages: Sequence[BaseMessage]) -> str:
        prompts.append(messages[0].text)
        return "I see it."

    script = "print('tidy')\n"
    model = ScriptedModel.saying(
        skill_manage_call("create", content=build_skill_md(body="# First\n")),
        ALLOW,
        skill_manage_call("patch", find="# First", replace="# Second"),
        ALLOW,
        skill_manage_call("write_file", path="scripts/tidy.py", content=script),
        ALLOW,
        "Done.",
        record_prompt,
    )
    async with open_skill_harness(tmp_path, model) as harness:
        await ask_successfully(harness)
        assert await read_tool_results(harness) == [
            "The skill 'sample' is made.",
            "'SKILL.md' of 'sample' is changed.",
            "'scripts/tidy.py' of 'sample' is written.",
        ]
        await ask_successfully(harness, "Again")
        entries = await harness.resources.custom_skills.history(ME, "sample")
        stored = await harness.resources.custom_skills.get(ME, "sample")
    assert [(entry.action, entry.author, entry.thread_id, entry.scanner.decision) for entry in entries] == [
        ("create", "agent", "t", "allow"),
        ("patch", "agent", "t", "allow"),
        ("write_file", "agent", "t", "allow"),
    ]
    assert (
        custom_skill_path(tmp_path, "SKILL.md").read_text() == build_skill_md(body="# Second\n")
        and stored.changed_outside == ()
    )
    assert "<name>sample</name><description>Does one thing. [custom, editable]</description>" in prompts[0]
    assert "<skill_evolution>" in prompts[0]


async def test_a_refused_change_returns_the_reason_and_changes_nothing(tmp_path: Path) -> None:
    malicious = "import os\nos.system('id')\n"
    model = ScriptedModel.saying(
        skill_manage_call("create", content=build_skill_md()),
        ALLOW,
        skill_manage_call("write_file", path="scripts/a.py", content=malicious),
        skill_manage_call("write_file", path="scripts/b.py", content="print(1)\n"),
        REVIEW_BLOCKS,
        skill_manage_call("write_file", path="scripts/c.py", content="print(1)\n"),
        "It looks fine to me.",
        skill_manage_call("write_file", path="tests/a.yaml", content="x"),
        skill_manage_call("patch", find="never there", replace="x"),
        skill_manage_call("edit"),
        "I could not.",
    )
    async with open_skill_harness(tmp_path, model) as harness:
        await ask_successfully(harness)
        results = await read_tool_results(harness)
    assert "scripts/a.py, line 2: passes a string to a shell (python-shell-exec)" in results[1]
    assert "refused by the review: It reads what it should not." in results[2]
    assert "no review: the model did not reply in the requested format" in results[3]
    assert "references/, templates/, scripts/, assets/" in results[4]
    assert "search text occurs 0 times" in results[5] and "edit needs content" in results[6]
    assert [path.name for path in custom_skill_path(tmp_path).iterdir()] == ["SKILL.md"]


async def test_built_in_skills_cannot_be_changed_by_an_agent(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills" / "public", "sample")
    before = (tmp_path / "skills" / "public" / "sample" / "SKILL.md").read_bytes()
    model = ScriptedModel.saying(
        skill_manage_call("edit", content=build_skill_md()),
        skill_manage_call("create", content=build_skill_md()),
        "No.",
    )
    async with open_skill_harness(tmp_path, model) as harness:
        await ask_successfully(harness)
        results = await read_tool_results(harness)
    assert "is built-in and cannot be changed" in results[0] and "skill 'sample' already exists" in results[1]
    assert (tmp_path / "skills" / "public" / "sample" / "SKILL.md").read_bytes() == before


async def test_without_the_setting_tool_and_prompt_section_are_absent(tmp_path: Path) -> None:
    prompts: list[str] = []

    def record_prompt(messages: Sequence[BaseMessage]) -> str:
        prompts.append(messages[0].text)
        return "Hello."

    async with open_skill_harness(tmp_path, ScriptedModel.saying(record_prompt), enabled=False) as harness:
        await ask_successfully(harness)
        names = harness.core.agents.get_graph(AgentSpec(), ME).nodes["tools"].bound.tools_by_name.keys()
    assert "skill_manage" not in names and "skill_manage" not in prompts[0]


async def test_the_review_is_charged_to_the_budget_of_the_run(tmp_path: Path) -> None:
    model = ScriptedModel.saying(skill_manage_call("create", content=build_skill_md()), ALLOW, "Done.")
    limits = {"skill_evolution": {"enabled": True}, "budget": {"max_tokens": 400_000}}
    async with open_sandbox_harness(tmp_path, model, skills={"path": str(tmp_path / "skills")}, **limits) as harness:
        run = await ask_successfully(harness)
        events = await harness.timeline.page(run, 0, 1000, ["budget"])
    spent = [orjson.loads(event.event.data) for event in events]
    assert [event["caller"] for event in spent if event["caller"] != LEAD_AGENT] == [SKILL_REVIEW] * 2
    assert 0 < model.requests[1].options["max_tokens"] < 100_000


@pytest.mark.slow
async def test_a_change_is_refused_if_the_budget_does_not_cover_its_review(tmp_path: Path) -> None:
    long = build_skill_md(body="# Long\n" + "words " * 10_000)
    model = ScriptedModel.saying(skill_manage_call("create", content=long), "I could not.")
    limits = {"skill_evolution": {"enabled": True}, "budget": {"max_tokens": 45_000}}
    async with open_sandbox_harness(tmp_path, model, skills={"path": str(tmp_path / "skills")}, **limits) as harness:
        await ask_successfully(harness)
        results = await read_tool_results(harness)
    assert "no review: the budget of this run (45000 tokens) does not pay for another model call" in results[0]
    assert not custom_skill_path(tmp_path).exists()
