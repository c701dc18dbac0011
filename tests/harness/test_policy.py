"""Guardrail policy in real runs: approvals, denials and taint."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from deerflow.domain.errors import ConfigError
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec, Resume, RunRequest, RunStatus
from deerflow.harness import Harness
from deerflow.testing import ScriptedModel, calling, in_parallel
from tests.harness.support import (
    LAUNCH_TOOL,
    PAGE_TOOL,
    TOOLS,
    ask,
    finish,
    messages_of,
    open_scripted_harness,
    state_of,
)
from tests.mcp.support import DEPOT_SERVER, PYTHON, write_servers

ASK_POLICY = """
rules:
  - {name: rockets, tool: "laun*", outcome: ask, reason: rockets are dear}
"""
DENY_POLICY = ASK_POLICY.replace("outcome: ask", "outcome: deny")
TAINT_POLICY = """
rules:
  - {name: after-reading, tool: launch, untrusted: true, outcome: deny, reason: strangers have spoken}
"""
LAUNCH = calling("launch", rocket="Saturn")


def write_policy(home: Path, policy: str) -> None:
    (home / "policy.yaml").write_text(policy)


async def tool_results(harness: Harness) -> list[tuple[str, str]]:
    messages = (await state_of(harness))["messages"]
    return [(each["status"], each["content"]) for each in messages if each["type"] == "tool"]


async def read_interrupts(harness: Harness) -> list[dict[str, Any]]:
    interrupts: list[dict[str, Any]] = orjson.loads((await harness.threads.state("t", LOCAL_USER)).interrupts)
    return interrupts


EDIT = {"type": "edit", "edited_action": {"name": "launch", "args": {"rocket": "Ariane"}}}


@pytest.mark.parametrize(
    ("decision", "status", "text"),
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
async def test_a_call_waits_for_approval_across_a_restart(
    tmp_path: Path, decision: dict[str, Any], status: str, text: str
) -> None:
    write_policy(tmp_path, ASK_POLICY)
    async with open_scripted_harness(tmp_path, ScriptedModel.saying(LAUNCH), tools=TOOLS) as harness:
        assert (await ask(harness, "Launch it")).status is RunStatus.INTERRUPTED
        action = (await read_interrupts(harness))[0]["value"]["action_requests"][0]
        assert action["args"] == {"rocket": "Saturn"} and "rockets are dear" in action["description"]
        assert (await harness.threads.get("t", LOCAL_USER)).status == "interrupted"
    async with open_scripted_harness(tmp_path, ScriptedModel.saying("Done."), tools=TOOLS) as harness:
        run = await finish(harness, RunRequest("t", resume=Resume({"decisions": [decision]})))
        assert run.status is RunStatus.SUCCESS, run.error
        (result,) = await tool_results(harness)
    assert result[0] == status and text in result[1]


async def test_parallel_calls_are_decided_separately_and_others_executed_once(tmp_path: Path) -> None:
    write_policy(tmp_path, ASK_POLICY)
    calls = in_parallel(LAUNCH, calling("page"), calling("launch", rocket="Ariane"))
    async with open_scripted_harness(tmp_path, ScriptedModel.saying(calls, "Done."), tools=TOOLS) as harness:
        assert (await ask(harness, "Launch them")).status is RunStatus.INTERRUPTED
        interrupts = {
            each["value"]["action_requests"][0]["args"]["rocket"]: each["id"] for each in await read_interrupts(harness)
        }
        decisions = {interrupts["Saturn"]: {"type": "reject"}, interrupts["Ariane"]: {"type": "approve"}}
        answer = {id_: {"decisions": [decision]} for id_, decision in decisions.items()}
        assert (await finish(harness, RunRequest("t", resume=Resume(answer)))).status is RunStatus.SUCCESS
        results = [text for _, text in await tool_results(harness)]
    assert results[0].startswith("User rejected") and results[1].startswith("Words") and "Ariane is" in results[2]


async def test_a_denied_call_returns_the_reason_and_policy_changes_take_effect_at_once(tmp_path: Path) -> None:
    write_policy(tmp_path, DENY_POLICY)
    model = ScriptedModel.saying(LAUNCH, "No.", LAUNCH, "Yes.")
    async with open_scripted_harness(tmp_path, model, tools=TOOLS) as harness:
        await ask(harness, "Launch it")
        write_policy(tmp_path, "otherwise: allow")
        await ask(harness, "And now?")
        denied, executed = await tool_results(harness)
    assert denied[0] == "error" and "it is not allowed: rockets are dear" in denied[1]
    assert executed == ("success", "Saturn is in the air")


async def test_a_rejection_holds_even_if_the_policy_now_allows_the_call(tmp_path: Path) -> None:
    write_policy(tmp_path, ASK_POLICY)
    async with open_scripted_harness(tmp_path, ScriptedModel.saying(LAUNCH, "Well."), tools=TOOLS) as harness:
        await ask(harness, "Launch it")
        write_policy(tmp_path, "otherwise: allow")
        await finish(harness, RunRequest("t", resume=Resume({"decisions": [{"type": "reject"}]})))
        assert [status for status, _ in await tool_results(harness)] == ["error"]


@pytest.mark.parametrize(
    ("entry", "is_asked"), [({}, True), ({"network": True}, True), ({"network": False}, False)], ids=str
)
async def test_a_container_server_is_asked_about_after_untrusted_content_unless_it_has_no_network(
    tmp_path: Path, entry: dict[str, object], is_asked: bool
) -> None:
    engine = tmp_path / "docker"
    engine.write_text(f"#!/bin/sh\nexec {PYTHON} {DEPOT_SERVER}\n")
    engine.chmod(0o755)
    depot = {"command": str(engine), "args": ["run", "-i", "--rm", "depot"], **entry}
    write_servers(tmp_path, {"depot": depot})
    model = ScriptedModel.saying(calling("page"), calling("depot_part_001", amount=4711_0815), "Done.")
    settings: dict[str, object] = {"tools": TOOLS, "tool_search": {"enabled": False}}
    async with open_scripted_harness(tmp_path, model, **settings) as harness:
        await harness.core.mcp.prepare(LOCAL_USER.user_id, wait_s=20)
        run = await ask(harness, "Read the page")
        asked = [each["value"]["action_requests"][0]["name"] for each in await read_interrupts(harness)]
        results = await tool_results(harness)
    assert asked == (["depot_part_001"] if is_asked else [])
    assert run.status is (RunStatus.INTERRUPTED if is_asked else RunStatus.SUCCESS), run.error
    assert is_asked or results[-1] == ("success", "47110815 of part_001")


async def test_an_invalid_policy_denies_all_calls_with_the_reason(tmp_path: Path) -> None:
    write_policy(tmp_path, ASK_POLICY)
    async with open_scripted_harness(tmp_path, ScriptedModel.saying(calling("page"), "Well."), tools=TOOLS) as harness:
        write_policy(tmp_path, "rules: [{name: x, outcome: perhaps}]")
        await ask(harness, "Read")
        ((status, text),) = await tool_results(harness)
    assert status == "error" and "the policy is invalid" in text and "policy.yaml" in text


@pytest.mark.parametrize(
    ("policy", "error"),
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
async def test_an_invalid_policy_prevents_the_start(tmp_path: Path, policy: str, error: str) -> None:
    write_policy(tmp_path, policy)
    with pytest.raises(ConfigError, match="policy.yaml") as raised:
        async with open_scripted_harness(tmp_path, ScriptedModel.saying("Hello."), tools=TOOLS):
            pass
    assert error in str(raised.value)


async def test_a_configured_policy_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"mine\.yaml: cannot be read"):
        async with open_scripted_harness(tmp_path, ScriptedModel.saying("Hello."), guardrails={"policy": "mine.yaml"}):
            pass


async def test_a_tool_with_approval_always_is_approved_only_once(tmp_path: Path) -> None:
    write_policy(tmp_path, ASK_POLICY)
    tools = [{**LAUNCH_TOOL, "approval": "always"}]
    async with open_scripted_harness(tmp_path, ScriptedModel.saying(LAUNCH, "Done."), tools=tools) as harness:
        await ask(harness, "Launch it")
        run = await finish(harness, RunRequest("t", resume=Resume({"decisions": [{"type": "approve"}]})))
        assert run.status is RunStatus.SUCCESS
        assert await tool_results(harness) == [("success", "Saturn is in the air")]


async def test_taint_persists_in_later_runs_after_a_restart_and_in_copies(tmp_path: Path) -> None:
    write_policy(tmp_path, TAINT_POLICY)
    first = ScriptedModel.saying(LAUNCH, "Up.", calling("page"), "Read.")
    async with open_scripted_harness(tmp_path, first, tools=TOOLS) as harness:
        await ask(harness, "Launch it")
        await ask(harness, "Read the page")
        copy = await harness.threads.copy("t", LOCAL_USER)
    model = ScriptedModel.saying(LAUNCH, "No.", LAUNCH, "No.")
    async with open_scripted_harness(tmp_path, model, tools=TOOLS) as harness:
        await ask(harness, "Launch it again")
        statuses = [status for status, _ in await tool_results(harness)]
        request = RunRequest(copy.thread_id, [{"type": "human", "content": "Launch it"}])
        run = await harness.runs.create_or_reject(request, LOCAL_USER)
        await harness.runs.join(copy.thread_id, run.run_id, LOCAL_USER)
        copied = orjson.loads((await harness.threads.state(copy.thread_id, LOCAL_USER)).values)
    assert statuses == ["success", "success", "error"]
    assert copied["untrusted"] == ["page"] and copied["messages"][-2]["status"] == "error"


@pytest.mark.slow
async def test_taint_persists_after_compaction(tmp_path: Path) -> None:
    write_policy(tmp_path, TAINT_POLICY)
    keep, trigger = ({"type": "messages", "value": value} for value in (2, 9))
    small = {"enabled": True, "model_name": "demo", "trigger": trigger, "keep": keep}
    model = ScriptedModel.saying(calling("page"), *["Yes."] * 5, LAUNCH, "No.")
    async with open_scripted_harness(tmp_path, model, tools=TOOLS, summarization=small) as harness:
        for text in ("read", "one", "two", "three", "four", "launch it"):
            await ask(harness, text)
        texts = [text for _, text in await messages_of(harness)]
        assert "Words of a stranger, at https://example.org/there." not in texts
        assert (await tool_results(harness))[-1][0] == "error"


async def test_taint_of_a_subagent_applies_to_its_lead_agent(tmp_path: Path) -> None:
    write_policy(tmp_path, TAINT_POLICY)
    task = calling("task", description="Read", prompt="Read the page", subagent_type="general-purpose")
    model = ScriptedModel.saying(task, calling("page"), "It is at https://example.org/there", LAUNCH, "No.")
    async with open_scripted_harness(tmp_path, model, tools=TOOLS) as harness:
        await ask(harness, "Have it read", AgentSpec(subagent_enabled=True))
        state = await state_of(harness)
    answer, denied = [message for message in state["messages"] if message["type"] == "tool"]
    assert state["untrusted"] == ["page"] and denied["status"] == "error"
    assert answer["additional_kwargs"]["read_addresses"] == ["example.org/there"]


async def test_a_subagent_inherits_taint_and_calls_that_need_approval_are_denied(tmp_path: Path) -> None:
    write_policy(tmp_path, TAINT_POLICY.replace("deny", "ask"))
    task = calling("task", description="Launch", prompt="Launch it", subagent_type="general-purpose")
    model = ScriptedModel.saying(calling("page"), task, LAUNCH, "I may not.", "So be it.")
    async with open_scripted_harness(tmp_path, model, tools=TOOLS) as harness:
        run = await ask(harness, "Have it launched", AgentSpec(subagent_enabled=True))
        assert run.status is RunStatus.SUCCESS
    denied = next(message.text for message in model.requests[3].messages if message.type == "tool")
    assert "strangers have spoken; a person would have to agree, and a subagent cannot ask one" in denied


def visit(url: str) -> str:
    """Open an address.

    Args:
        url: The address.
    """
    return f"{url} is open"


@pytest.mark.slow
async def test_urls_stay_known_after_compaction(tmp_path: Path) -> None:
    rules = "{name: new, tool: visit, arguments: {url: {known: false}}, outcome: deny, reason: never heard of}"
    write_policy(tmp_path, f"rules: [{rules}]\nshipped_rules: false")
    tools = [PAGE_TOOL, {"name": "visit", "group": "web", "use": "tests.harness.test_policy:visit"}]
    keep, trigger = ({"type": "messages", "value": value} for value in (2, 9))
    small = {"enabled": True, "model_name": "demo", "trigger": trigger, "keep": keep}
    visits = in_parallel(
        calling("visit", url="https://example.org/there"),
        calling("visit", url="https://user.example/wanted"),
        calling("visit", url="https://example.org/there?c=CANARY"),
        calling("visit", url="https://model.example/made-up"),
    )
    model = ScriptedModel.saying(calling("page"), "See https://model.example/made-up", *["Yes."] * 4, visits, "Done.")
    async with open_scripted_harness(tmp_path, model, tools=tools, summarization=small) as harness:
        for text in ("read user.example/wanted", "one", "two", "three", "four", "visit them"):
            await ask(harness, text)
        results = await tool_results(harness)
        assert len([text for _, text in await messages_of(harness) if "example.org/there." in text]) == 0
    assert [status for status, _ in results[-4:]] == ["success", "success", "error", "error"]
