"""Tool calls that a user has allowed for the rest of a thread."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from deerflow.domain.errors import NotFound
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.domain.runs import Resume, RunRequest, RunStatus
from deerflow.guardrails.middleware import PERMISSION_MARK, describe_permission
from deerflow.guardrails.policy import make_decision
from deerflow.harness import Harness
from deerflow.testing import ScriptedModel, calling, in_parallel
from tests.harness.support import LAUNCH_TOOL, TOOLS, finish, open_scripted_harness, state_of

POLICY = """
rules:
  - {name: rockets, tool: "laun*", outcome: ask, reason: rockets are dear}
"""
ALLOW_IN_THREAD = {"decisions": [{"type": "approve", "scope": "thread"}]}
ALLOW_ONCE = {"decisions": [{"type": "approve"}]}
LAUNCH = calling("launch", rocket="Saturn")


async def launch(harness: Harness, thread: str = "t") -> RunStatus:
    request = RunRequest(thread, [{"type": "human", "content": "Launch it"}])
    run = await harness.runs.create_or_reject(request, LOCAL_USER)
    async with asyncio.timeout(20):
        return (await harness.runs.join(thread, run.run_id, LOCAL_USER)).status


async def decide(harness: Harness, answer: dict[str, Any]) -> RunStatus:
    return (await finish(harness, RunRequest("t", resume=Resume(answer)))).status


async def is_marked(harness: Harness) -> list[bool]:
    """Return for each tool result whether the permission of the thread allowed its call."""
    messages = (await state_of(harness))["messages"]
    return [PERMISSION_MARK in each["additional_kwargs"] for each in messages if each["type"] == "tool"]


async def test_a_call_that_was_allowed_once_is_asked_about_again(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    model = ScriptedModel.saying(LAUNCH, "One.", LAUNCH)
    async with open_scripted_harness(tmp_path, model, tools=TOOLS) as harness:
        await launch(harness)
        assert await decide(harness, ALLOW_ONCE) is RunStatus.SUCCESS
        assert await launch(harness) is RunStatus.INTERRUPTED
        assert await harness.resources.permissions.list("t", LOCAL_USER) == []


async def test_a_tool_allowed_in_a_thread_runs_there_until_it_is_revoked(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    model = ScriptedModel.saying(LAUNCH, "One.", LAUNCH, "Two.", LAUNCH)
    async with open_scripted_harness(tmp_path, model, tools=TOOLS) as harness:
        await launch(harness)
        assert await decide(harness, ALLOW_IN_THREAD) is RunStatus.SUCCESS
    async with open_scripted_harness(tmp_path, model, tools=TOOLS) as harness:
        assert await launch(harness) is RunStatus.SUCCESS  # nobody is asked, also after a restart
        assert await is_marked(harness) == [False, True]
        (given,) = await harness.resources.permissions.list("t", LOCAL_USER)
        assert (given.permission.tool, given.permission.rule) == ("launch", "rockets")
        await harness.resources.permissions.revoke("t", LOCAL_USER, given.permission_id)
        assert await launch(harness) is RunStatus.INTERRUPTED
        with pytest.raises(NotFound):
            await harness.resources.permissions.revoke("t", LOCAL_USER, given.permission_id)


async def test_other_threads_copies_rules_and_people_are_not_covered(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    model = ScriptedModel.saying(LAUNCH, "One.", LAUNCH, LAUNCH, LAUNCH)
    async with open_scripted_harness(tmp_path, model, tools=TOOLS) as harness:
        await launch(harness)
        await decide(harness, ALLOW_IN_THREAD)
        copy = await harness.threads.copy("t", LOCAL_USER)
        assert await launch(harness, copy.thread_id) is RunStatus.INTERRUPTED
        assert await launch(harness, "other") is RunStatus.INTERRUPTED
        policy.write_text(POLICY.replace("rockets,", "another-reason,"))
        assert await launch(harness) is RunStatus.INTERRUPTED
        with pytest.raises(NotFound):
            await harness.resources.permissions.list("t", Principal("stranger"))


async def test_permissions_are_deleted_with_the_thread(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    model = ScriptedModel.saying(LAUNCH, "One.", LAUNCH)
    async with open_scripted_harness(tmp_path, model, tools=TOOLS) as harness:
        await launch(harness)
        await decide(harness, ALLOW_IN_THREAD)
        await harness.threads.delete("t", LOCAL_USER)
        assert await launch(harness) is RunStatus.INTERRUPTED
        assert await harness.resources.permissions.list("t", LOCAL_USER) == []


async def test_a_rule_may_forbid_permissions(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY.replace("outcome: ask,", "outcome: ask, allow_in_thread: false,"))
    model = ScriptedModel.saying(LAUNCH, "One.", LAUNCH)
    async with open_scripted_harness(tmp_path, model, tools=TOOLS) as harness:
        await launch(harness)
        interrupts = orjson.loads((await harness.threads.state("t", LOCAL_USER)).interrupts)
        assert "permission" not in interrupts[0]["value"]
        assert await decide(harness, ALLOW_IN_THREAD) is RunStatus.SUCCESS
        assert await launch(harness) is RunStatus.INTERRUPTED


async def test_tools_that_always_need_approval_can_be_allowed_in_a_thread(tmp_path: Path) -> None:
    tools = [LAUNCH_TOOL | {"approval": "always"}]
    both = in_parallel(LAUNCH, calling("launch", rocket="Ariane"))
    model = ScriptedModel.saying(LAUNCH, "One.", both, "Two.")
    async with open_scripted_harness(tmp_path, model, tools=tools) as harness:
        assert await launch(harness) is RunStatus.INTERRUPTED
        assert await decide(harness, ALLOW_IN_THREAD) is RunStatus.SUCCESS
        assert await launch(harness) is RunStatus.SUCCESS
        assert await is_marked(harness) == [True, True, True]


@pytest.mark.parametrize(
    ("args", "hosts"),
    [
        ({"url": "https://Example.org/a?b=c"}, ("example.org",)),
        ({"urls": ["https://b.org/", "http://a.org/x"]}, ("a.org", "b.org")),
        ({"command": "curl https://example.org"}, ()),
    ],
)
def test_a_permission_covers_only_the_hosts_that_were_seen(args: dict[str, Any], hosts: tuple[str, ...]) -> None:
    permission = describe_permission("fetch", args, make_decision("ask", "new-address", "composed"))
    assert permission is not None and permission.hosts == hosts
    assert describe_permission("fetch", args, make_decision("deny", "no", "never")) is None
