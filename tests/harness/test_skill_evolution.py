"""Agents that make and change skills in real runs: reviewed, noted, and used by the next run."""

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
from tests.harness.test_skills import ask
from tests.sandbox.support import open_sandbox_harness, tool_results
from tests.skills.support import ALLOW, write_skill
from tests.skills.support import build_skill_md as skill

ME = LOCAL_USER.user_id
BLOCK = '{"decision": "block", "reason": "It reads what it should not."}'


def world(home: Path, model: ScriptedModel, *, enabled: bool = True) -> AbstractAsyncContextManager[Harness]:
    return open_sandbox_harness(
        home, model, skills={"path": str(home / "skills")}, skill_evolution={"enabled": enabled}
    )


def manage(action: str, **arguments: object) -> Answer:
    return calling("skill_manage", action=action, name="sample", **arguments)


def custom(home: Path, path: str = "") -> Path:
    return home / ".deer-flow" / "users" / ME / "skills" / "custom" / "sample" / path


async def told(harness: Harness) -> list[str]:
    return [answer["content"] for answer in await tool_results(harness)]


async def test_a_skill_that_an_agent_makes_is_reviewed_noted_and_there_for_the_next_run(tmp_path: Path) -> None:
    seen: list[str] = []

    def look(messages: Sequence[BaseMessage]) -> str:
        seen.append(messages[0].text)
        return "I see it."

    script = "print('tidy')\n"
    model = ScriptedModel.saying(
        manage("create", content=skill(body="# First\n")),
        ALLOW,
        manage("patch", find="# First", replace="# Second"),
        ALLOW,
        manage("write_file", path="scripts/tidy.py", content=script),
        ALLOW,
        "Done.",
        look,
    )
    async with world(tmp_path, model) as harness:
        await ask(harness)
        assert await told(harness) == [
            "The skill 'sample' is made.",
            "'SKILL.md' of 'sample' is changed.",
            "'scripts/tidy.py' of 'sample' is written.",
        ]
        await ask(harness, "Again")
        entries = await harness.resources.custom_skills.history(ME, "sample")
        stored = await harness.resources.custom_skills.get(ME, "sample")
    assert [(entry.action, entry.author, entry.thread_id, entry.scanner.decision) for entry in entries] == [
        ("create", "agent", "t", "allow"),
        ("patch", "agent", "t", "allow"),
        ("write_file", "agent", "t", "allow"),
    ]
    assert custom(tmp_path, "SKILL.md").read_text() == skill(body="# Second\n") and stored.changed_outside == ()
    assert "<name>sample</name><description>Does one thing. [custom, editable]</description>" in seen[0]
    assert "<skill_evolution>" in seen[0]


async def test_an_agent_is_told_why_a_change_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    bad = "import os\nos.system('id')\n"
    model = ScriptedModel.saying(
        manage("create", content=skill()),
        ALLOW,
        manage("write_file", path="scripts/a.py", content=bad),
        manage("write_file", path="scripts/b.py", content="print(1)\n"),
        BLOCK,
        manage("write_file", path="scripts/c.py", content="print(1)\n"),
        "It looks fine to me.",
        manage("write_file", path="tests/a.yaml", content="x"),
        manage("patch", find="never there", replace="x"),
        manage("edit"),
        "I could not.",
    )
    async with world(tmp_path, model) as harness:
        await ask(harness)
        said = await told(harness)
    assert "scripts/a.py, line 2: passes a string to a shell (python-shell-exec)" in said[1]
    assert "refused by the review: It reads what it should not." in said[2]
    assert "no review: the model did not reply in the requested format" in said[3]
    assert "references/, templates/, scripts/, assets/" in said[4]
    assert "search text occurs 0 times" in said[5] and "edit needs content" in said[6]
    assert [path.name for path in custom(tmp_path).iterdir()] == ["SKILL.md"]


async def test_built_in_skills_cannot_be_changed_by_an_agent(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills" / "public", "sample")
    before = (tmp_path / "skills" / "public" / "sample" / "SKILL.md").read_bytes()
    model = ScriptedModel.saying(manage("edit", content=skill()), manage("create", content=skill()), "No.")
    async with world(tmp_path, model) as harness:
        await ask(harness)
        said = await told(harness)
    assert "is built-in and cannot be changed" in said[0] and "skill 'sample' already exists" in said[1]
    assert (tmp_path / "skills" / "public" / "sample" / "SKILL.md").read_bytes() == before


async def test_without_the_setting_there_is_neither_the_tool_nor_a_word_of_it(tmp_path: Path) -> None:
    seen: list[str] = []

    def look(messages: Sequence[BaseMessage]) -> str:
        seen.append(messages[0].text)
        return "Hello."

    async with world(tmp_path, ScriptedModel.saying(look), enabled=False) as harness:
        await ask(harness)
        names = harness.core.agents.get_graph(AgentSpec(), ME).nodes["tools"].bound.tools_by_name.keys()
    assert "skill_manage" not in names and "skill_manage" not in seen[0]


async def test_the_review_of_what_an_agent_makes_is_paid_from_the_budget_of_its_run(tmp_path: Path) -> None:
    model = ScriptedModel.saying(manage("create", content=skill()), ALLOW, "Done.")
    limits = {"skill_evolution": {"enabled": True}, "budget": {"max_tokens": 400_000}}
    async with open_sandbox_harness(tmp_path, model, skills={"path": str(tmp_path / "skills")}, **limits) as harness:
        run = await ask(harness)
        page = await harness.timeline.page(run, 0, 1000, ["budget"])
    told = [orjson.loads(event.event.data) for event in page]
    assert [each["caller"] for each in told if each["caller"] != LEAD_AGENT] == [SKILL_REVIEW] * 2
    assert 0 < model.requests[1].options["max_tokens"] < 100_000


@pytest.mark.slow
async def test_a_change_whose_review_cannot_be_paid_is_refused(tmp_path: Path) -> None:
    long = skill(body="# Long\n" + "words " * 10_000)
    model = ScriptedModel.saying(manage("create", content=long), "I could not.")
    limits = {"skill_evolution": {"enabled": True}, "budget": {"max_tokens": 130_000}}
    async with open_sandbox_harness(tmp_path, model, skills={"path": str(tmp_path / "skills")}, **limits) as harness:
        await ask(harness)
        said = await told(harness)
    assert "no review: the budget of this run (130000 tokens) does not pay for another model call" in said[0]
    assert not custom(tmp_path).exists()
