"""A policy in force: what it asks about, refuses and remembers, in real runs."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from langchain_core.tools import StructuredTool

from deerflow.domain.errors import ConfigError
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec, Resume, RunRequest, RunStatus
from deerflow.harness import Harness
from deerflow.testing import ScriptedModel, calling, in_parallel
from tests.harness.test_lead_agent import LAUNCHES, ask, finish, opened, said, state_of

ASKS = """
rules:
  - {name: rockets, tool: "laun*", outcome: ask, reason: rockets are dear}
"""
REFUSES = ASKS.replace("outcome: ask", "outcome: deny")
AFTER_READING = """
rules:
  - {name: after-reading, tool: launch, untrusted: true, outcome: deny, reason: strangers have spoken}
"""
PAGE = {"name": "page", "group": "web", "use": "tests.harness.test_policy:page_tool"}
TOOLS = [LAUNCHES, PAGE]
LAUNCH = calling("launch", rocket="Saturn")


async def page() -> str:
    return "Words of a stranger, at https://example.org/there."


page_tool = StructuredTool.from_function(
    coroutine=page, name="page", description="Read a page.", metadata={"untrusted": True}
)


def rule(home: Path, policy: str) -> None:
    (home / "policy.yaml").write_text(policy)


async def results(harness: Harness) -> list[tuple[str, str]]:
    messages = (await state_of(harness))["messages"]
    return [(each["status"], each["content"]) for each in messages if each["type"] == "tool"]


async def questions(harness: Harness) -> list[dict[str, Any]]:
    asked: list[dict[str, Any]] = orjson.loads((await harness.threads.state("t", LOCAL_USER)).interrupts)
    return asked


EDIT = {"type": "edit", "edited_action": {"name": "launch", "args": {"rocket": "Ariane"}}}


@pytest.mark.parametrize(
    ("decision", "status", "told"),
    [
        ({"type": "approve"}, "success", "Saturn is in the air"),
        (EDIT, "success", 'launch with arguments {"rocket": "Ariane"}.\n\nTool response:\nAriane is in the air'),
        (
            {"type": "reject", "message": "not today"},
            "error",
            "User rejected the tool call for `launch` with reason: not today",
        ),
    ],
)
async def test_a_call_that_is_asked_about_waits_for_a_word_across_a_restart(
    tmp_path: Path, decision: dict[str, Any], status: str, told: str
) -> None:
    rule(tmp_path, ASKS)
    async with opened(tmp_path, ScriptedModel.saying(LAUNCH), tools=TOOLS) as harness:
        assert (await ask(harness, "Launch it")).status is RunStatus.INTERRUPTED
        action = (await questions(harness))[0]["value"]["action_requests"][0]
        assert action["args"] == {"rocket": "Saturn"} and "rockets are dear" in action["description"]
        assert (await harness.threads.get("t", LOCAL_USER)).status == "interrupted"
    async with opened(tmp_path, ScriptedModel.saying("Done."), tools=TOOLS) as harness:
        run = await finish(harness, RunRequest("t", resume=Resume({"decisions": [decision]})))
        assert run.status is RunStatus.SUCCESS, run.error
        (result,) = await results(harness)
    assert result[0] == status and told in result[1]


async def test_calls_side_by_side_are_decided_one_by_one_and_the_others_are_made_once(tmp_path: Path) -> None:
    rule(tmp_path, ASKS)
    calls = in_parallel(LAUNCH, calling("page"), calling("launch", rocket="Ariane"))
    async with opened(tmp_path, ScriptedModel.saying(calls, "Done."), tools=TOOLS) as harness:
        assert (await ask(harness, "Launch them")).status is RunStatus.INTERRUPTED
        asked = {each["value"]["action_requests"][0]["args"]["rocket"]: each["id"] for each in await questions(harness)}
        words = {asked["Saturn"]: {"type": "reject"}, asked["Ariane"]: {"type": "approve"}}
        answer = {id_: {"decisions": [word]} for id_, word in words.items()}
        assert (await finish(harness, RunRequest("t", resume=Resume(answer)))).status is RunStatus.SUCCESS
        told = [text for _, text in await results(harness)]
    assert told[0].startswith("User rejected") and told[1].startswith("Words") and "Ariane is" in told[2]


async def test_what_is_refused_is_told_with_the_reason_and_an_edit_of_the_policy_counts_at_once(tmp_path: Path) -> None:
    rule(tmp_path, REFUSES)
    model = ScriptedModel.saying(LAUNCH, "No.", LAUNCH, "Yes.")
    async with opened(tmp_path, model, tools=TOOLS) as harness:
        await ask(harness, "Launch it")
        rule(tmp_path, "otherwise: allow")
        await ask(harness, "And now?")
        refused, made = await results(harness)
    assert refused[0] == "error" and "it is not allowed: rockets are dear" in refused[1]
    assert made == ("success", "Saturn is in the air")


async def test_a_no_holds_also_when_the_policy_has_become_milder_meanwhile(tmp_path: Path) -> None:
    rule(tmp_path, ASKS)
    async with opened(tmp_path, ScriptedModel.saying(LAUNCH, "Well."), tools=TOOLS) as harness:
        await ask(harness, "Launch it")
        rule(tmp_path, "otherwise: allow")
        await finish(harness, RunRequest("t", resume=Resume({"decisions": [{"type": "reject"}]})))
        assert [status for status, _ in await results(harness)] == ["error"]


async def test_a_policy_that_becomes_unreadable_refuses_every_call_and_says_why(tmp_path: Path) -> None:
    rule(tmp_path, ASKS)
    async with opened(tmp_path, ScriptedModel.saying(calling("page"), "Well."), tools=TOOLS) as harness:
        rule(tmp_path, "rules: [{name: x, outcome: perhaps}]")
        await ask(harness, "Read")
        ((status, text),) = await results(harness)
    assert status == "error" and "the policy is invalid" in text and "policy.yaml" in text


@pytest.mark.parametrize(
    ("policy", "complaint"),
    [
        ("rules: [{name: x, outcome: perhaps, reason: r}]", "outcome"),
        ("rules: [{name: x, outcome: deny, reason: r, toll: bash}]", "tool"),
        ("rules: [{name: x, outcome: deny, reason: r, arguments: {a: {regex: '(?=a)'}}}]", "without backtracking"),
        ("rules: [{name: x, outcome: deny, reason: r, arguments: {a: {}}}]", "has no condition"),
        ("rules: [{name: x, outcome: deny, reason: r}, {name: x, outcome: ask, reason: r}]", "must be unique"),
        ("rules: {", "policy.yaml"),
        ("version: 2", "version"),
    ],
)
async def test_a_server_does_not_start_with_a_policy_that_is_wrong(tmp_path: Path, policy: str, complaint: str) -> None:
    rule(tmp_path, policy)
    with pytest.raises(ConfigError, match="policy.yaml") as problem:
        async with opened(tmp_path, ScriptedModel.saying("Hello."), tools=TOOLS):
            pass
    assert complaint in str(problem.value)


async def test_a_policy_that_is_named_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"mine\.yaml: cannot be read"):
        async with opened(tmp_path, ScriptedModel.saying("Hello."), guardrails={"policy": "mine.yaml"}):
            pass


async def test_a_tool_that_everybody_is_asked_about_is_not_asked_about_twice(tmp_path: Path) -> None:
    rule(tmp_path, ASKS)
    tools = [{**LAUNCHES, "approval": "always"}]
    async with opened(tmp_path, ScriptedModel.saying(LAUNCH, "Done."), tools=tools) as harness:
        await ask(harness, "Launch it")
        run = await finish(harness, RunRequest("t", resume=Resume({"decisions": [{"type": "approve"}]})))
        assert run.status is RunStatus.SUCCESS
        assert await results(harness) == [("success", "Saturn is in the air")]


async def test_that_strangers_have_spoken_is_remembered_by_later_runs_a_restart_and_a_copy(tmp_path: Path) -> None:
    rule(tmp_path, AFTER_READING)
    first = ScriptedModel.saying(LAUNCH, "Up.", calling("page"), "Read.")
    async with opened(tmp_path, first, tools=TOOLS) as harness:
        await ask(harness, "Launch it")
        await ask(harness, "Read the page")
        copy = await harness.threads.copy("t", LOCAL_USER)
    model = ScriptedModel.saying(LAUNCH, "No.", LAUNCH, "No.")
    async with opened(tmp_path, model, tools=TOOLS) as harness:
        await ask(harness, "Launch it again")
        statuses = [status for status, _ in await results(harness)]
        request = RunRequest(copy.thread_id, [{"type": "human", "content": "Launch it"}])
        run = await harness.runs.create_or_reject(request, LOCAL_USER)
        await harness.runs.join(copy.thread_id, run.run_id, LOCAL_USER)
        copied = orjson.loads((await harness.threads.state(copy.thread_id, LOCAL_USER)).values)
    assert statuses == ["success", "success", "error"]
    assert copied["untrusted"] == ["page"] and copied["messages"][-2]["status"] == "error"


@pytest.mark.slow
async def test_it_is_remembered_also_when_what_they_said_was_compacted_away(tmp_path: Path) -> None:
    rule(tmp_path, AFTER_READING)
    keep, trigger = ({"type": "messages", "value": value} for value in (2, 9))
    small = {"enabled": True, "model_name": "demo", "trigger": trigger, "keep": keep}
    model = ScriptedModel.saying(calling("page"), *["Yes."] * 5, LAUNCH, "No.")
    async with opened(tmp_path, model, tools=TOOLS, summarization=small) as harness:
        for text in ("read", "one", "two", "three", "four", "launch it"):
            await ask(harness, text)
        texts = [text for _, text in await said(harness)]
        assert "Words of a stranger, at https://example.org/there." not in texts
        assert (await results(harness))[-1][0] == "error"


async def test_what_a_subagent_has_read_counts_for_whoever_gave_it_the_work(tmp_path: Path) -> None:
    rule(tmp_path, AFTER_READING)
    task = calling("task", description="Read", prompt="Read the page", subagent_type="general-purpose")
    model = ScriptedModel.saying(task, calling("page"), "It is at https://example.org/there", LAUNCH, "No.")
    async with opened(tmp_path, model, tools=TOOLS) as harness:
        await ask(harness, "Have it read", AgentSpec(subagent_enabled=True))
        state = await state_of(harness)
    answer, refused = [message for message in state["messages"] if message["type"] == "tool"]
    assert state["untrusted"] == ["page"] and refused["status"] == "error"
    assert answer["additional_kwargs"]["read_addresses"] == ["example.org/there"]


async def test_a_subagent_knows_what_its_lead_agent_has_read_and_cannot_ask(tmp_path: Path) -> None:
    rule(tmp_path, AFTER_READING.replace("deny", "ask"))
    task = calling("task", description="Launch", prompt="Launch it", subagent_type="general-purpose")
    model = ScriptedModel.saying(calling("page"), task, LAUNCH, "I may not.", "So be it.")
    async with opened(tmp_path, model, tools=TOOLS) as harness:
        run = await ask(harness, "Have it launched", AgentSpec(subagent_enabled=True))
        assert run.status is RunStatus.SUCCESS
    refused = next(message.text for message in model.requests[3].messages if message.type == "tool")
    assert "strangers have spoken; a person would have to agree, and a subagent cannot ask one" in refused


def visit(url: str) -> str:
    """Open an address.

    Args:
        url: The address.
    """
    return f"{url} is open"


@pytest.mark.slow
async def test_an_address_that_was_compacted_away_is_still_known_and_a_subagents_too(tmp_path: Path) -> None:
    rules = "{name: new, tool: visit, arguments: {url: {known: false}}, outcome: deny, reason: never heard of}"
    rule(tmp_path, f"rules: [{rules}]\nshipped_rules: false")
    tools = [PAGE, {"name": "visit", "group": "web", "use": "tests.harness.test_policy:visit"}]
    keep, trigger = ({"type": "messages", "value": value} for value in (2, 9))
    small = {"enabled": True, "model_name": "demo", "trigger": trigger, "keep": keep}
    visits = in_parallel(
        calling("visit", url="https://example.org/there"),
        calling("visit", url="https://user.example/wanted"),
        calling("visit", url="https://example.org/there?c=CANARY"),
        calling("visit", url="https://model.example/made-up"),
    )
    model = ScriptedModel.saying(calling("page"), "See https://model.example/made-up", *["Yes."] * 4, visits, "Done.")
    async with opened(tmp_path, model, tools=tools, summarization=small) as harness:
        for text in ("read user.example/wanted", "one", "two", "three", "four", "visit them"):
            await ask(harness, text)
        told = await results(harness)
        assert len([text for _, text in await said(harness) if "example.org/there." in text]) == 0
    assert [status for status, _ in told[-4:]] == ["success", "success", "error", "error"]
