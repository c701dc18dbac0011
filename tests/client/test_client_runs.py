"""Tool calls that need approval."""

import asyncio
from typing import Any

import pytest
from langgraph.types import interrupt

from deerflow.client import DeerFlowClient
from deerflow.domain.errors import Conflict, InvalidRequest, NotFound
from deerflow.guardrails.providers import GuardrailDecision, GuardrailReason, GuardrailRequest
from deerflow.testing import ScriptedModel, calling, in_parallel

LAUNCH = {"name": "launch", "group": "space", "use": "tests.client.test_client_runs:launch", "approval": "always"}
ASK = {"name": "ask", "group": "space", "use": "tests.client.test_client_runs:ask"}


def launch(rocket: str) -> str:
    """Launch a rocket.

    Args:
        rocket: Its name.
    """
    return f"{rocket} is in the air"


def ask(question: str) -> str:
    """Ask the user with an interrupt of its own.

    Args:
        question: The question.
    """
    return f"the answer is {interrupt({'question': question})}"


def open_client(*turns: Any) -> DeerFlowClient:
    return DeerFlowClient({"tools": [LAUNCH, ASK]}, model=ScriptedModel.saying(*turns))


def list_tool_results(client: DeerFlowClient) -> list[str]:
    messages = client.threads.get("t")["checkpoints"][0]["values"]["messages"]
    return [message["content"] for message in messages if message["type"] == "tool"]


def test_a_thread_without_pending_calls_refuses_decisions() -> None:
    with open_client("Hello.") as client:
        client.chat("Hi", thread_id="t")
        assert client.approvals.list("t") == []
        for attempt in (
            lambda: client.approvals.approve("t"),
            lambda: client.approvals.reject("t"),
            lambda: client.approvals.edit("t", {}),
            lambda: client.runs.resume("t", "yes"),
            lambda: list(client.runs.stream_resume("t", "yes")),
        ):
            with pytest.raises(Conflict, match="thread 't' has nothing pending"):
                attempt()
        with pytest.raises(NotFound):
            client.approvals.approve("none")


@pytest.mark.parametrize(
    "answer",
    [
        "yes",
        None,
        {},
        {"decisions": []},
        {"decisions": [{"type": "dance"}]},
        {"decisions": [{"type": "edit"}]},
        {"decisions": [{"type": "approve"}, {"type": "approve"}]},
    ],
)
def test_an_invalid_decision_is_refused_and_the_call_stays_pending(answer: object) -> None:
    with open_client(calling("launch", rocket="Saturn"), "Done.") as client:
        client.chat("Launch it", thread_id="t")
        with pytest.raises(InvalidRequest, match=r"does not decide what waits \(launch\)"):
            client.runs.resume("t", answer)
        assert client.approvals.approve("t") == "Done."


def test_a_pending_call_is_listed_and_approved() -> None:
    with open_client(calling("launch", rocket="Saturn"), "Done.") as client:
        assert client.chat("Launch it", thread_id="t") == ""
        (question,) = client.approvals.list("t")
        (call,) = question["value"]["action_requests"]
        assert (call["name"], call["args"]) == ("launch", {"rocket": "Saturn"})
        assert client.approvals.approve("t") == "Done."
        assert list_tool_results(client) == ["Saturn is in the air"] and client.approvals.list("t") == []


def test_a_pending_call_runs_with_edited_arguments() -> None:
    with open_client(calling("launch", rocket="Saturn"), "Done.") as client:
        client.chat("Launch it", thread_id="t")
        assert client.approvals.edit("t", {"rocket": "Ariane"}) == "Done."
        assert "Ariane is in the air" in list_tool_results(client)[0]


@pytest.mark.parametrize(("reason", "shown"), [("not today", "not today"), (None, "The tool was not executed")])
def test_a_call_is_rejected_with_a_reason_for_the_agent(reason: str | None, shown: str) -> None:
    with open_client(calling("launch", rocket="Saturn"), "As you like.") as client:
        client.chat("Launch it", thread_id="t")
        assert client.approvals.reject("t", reason) == "As you like."
        assert shown in list_tool_results(client)[0]


def test_a_run_may_pause_again() -> None:
    with open_client(calling("launch", rocket="Saturn"), calling("launch", rocket="Ariane"), "Both.") as client:
        client.chat("Launch them", thread_id="t")
        assert client.approvals.approve("t") == ""
        assert client.approvals.approve("t") == "Both."
        assert list_tool_results(client) == ["Saturn is in the air", "Ariane is in the air"]


def test_several_calls_are_decided_together_or_individually() -> None:
    both = [calling("launch", rocket="Saturn"), calling("launch", rocket="Ariane")]
    for decide, made in (
        (lambda client: client.approvals.approve("t"), [True, True]),
        (
            lambda client: client.runs.resume("t", {"decisions": [{"type": "reject"}, {"type": "approve"}]}),
            [False, True],
        ),
    ):
        with open_client(in_parallel(*both), "Done.") as client:
            client.chat("Launch them", thread_id="t")
            with pytest.raises(InvalidRequest, match=r"thread 't' has 2 pending calls \(launch, launch\)"):
                client.approvals.edit("t", {"rocket": "Soyuz"})
            assert decide(client) == "Done."
            assert ["in the air" in result for result in list_tool_results(client)][-2:] == made


def test_an_interrupt_of_a_custom_tool_accepts_any_answer() -> None:
    with open_client(calling("ask", question="How many?"), "Done.") as client:
        client.chat("Ask me", thread_id="t")
        assert client.approvals.list("t")[0]["value"] == {"question": "How many?"}
        with pytest.raises(InvalidRequest, match="How many.* is not a tool call"):
            client.approvals.approve("t")
        assert client.runs.resume("t", 42) == "Done."
        assert list_tool_results(client) == ["the answer is 42"]


def test_a_resumed_run_is_streamed() -> None:
    with open_client(calling("launch", rocket="Saturn"), "Done.") as client:
        paused = list(client.stream("Launch it", thread_id="t"))
        assert [event.data for event in paused if event.type == "values"][-1]["__interrupt__"]
        events = list(client.runs.stream_resume("t", {"decisions": [{"type": "approve"}]}))
        words = [
            event.data["content"] for event in events if event.type == "messages-tuple" and event.data["type"] == "ai"
        ]
        assert "".join(words) == "Done." and events[-1].type == "end"


def test_a_pending_call_is_approved_after_a_restart() -> None:
    with open_client(calling("launch", rocket="Saturn")) as client:
        client.chat("Launch it", thread_id="t")
    with open_client("Done.") as client:
        assert client.approvals.approve("t") == "Done."


async def test_async_methods_do_the_same() -> None:
    turns = [turn for name in "abcd" for turn in (calling("launch", rocket=name), f"{name}.")]
    approve = {"decisions": [{"type": "approve"}]}
    async with open_client(*turns) as client, asyncio.timeout(20):
        for name, decide in (
            ("a", client.approvals.aapprove("t")),
            ("b", client.approvals.areject("t", "no")),
            ("c", client.approvals.aedit("t", {"rocket": "C"})),
            ("d", client.runs.aresume("t", approve)),
        ):
            await client.achat("Launch", thread_id="t")
            assert len(await client.approvals.alist("t")) == 1
            assert await decide == f"{name}."


def test_a_new_message_drops_pending_calls() -> None:
    with open_client(calling("launch", rocket="Saturn"), "As you like.") as client:
        client.chat("Launch it", thread_id="t")
        assert client.chat("Never mind", thread_id="t") == "As you like."
        assert client.approvals.list("t") == []
        with pytest.raises(Conflict):
            client.approvals.approve("t")


class AlwaysAsks:
    """Custom guardrail provider that requires approval for every call."""

    name = "always"

    async def aevaluate(self, request: GuardrailRequest) -> GuardrailDecision:
        return GuardrailDecision(False, (GuardrailReason("always", "always asked"),), ask=True)


def test_a_call_stopped_by_a_guardrail_is_approved_like_any_other() -> None:
    provider = {"use": "tests.client.test_client_runs:AlwaysAsks"}
    config = {"tools": [{**LAUNCH, "approval": "never"}], "guardrails": {"provider": provider}}
    model = ScriptedModel.saying(calling("launch", rocket="Saturn"), "Up it went.")
    with DeerFlowClient(config, model=model) as client:
        client.chat("Launch it", thread_id="t")
        (question,) = client.approvals.list("t")
        assert "always asked" in question["value"]["action_requests"][0]["description"]
        assert client.approvals.approve("t") == "Up it went."
        assert list_tool_results(client) == ["Saturn is in the air"]


def test_pending_calls_are_allowed_in_the_thread_until_that_is_revoked() -> None:
    launch = calling("launch", rocket="Saturn")
    with open_client(launch, "One.", launch, "Two.", launch) as client:
        client.chat("Launch it", thread_id="t")
        assert client.approvals.approve_in_thread("t") == "One."
        assert client.chat("Again", thread_id="t") == "Two."
        (given,) = client.approvals.list_permissions("t")
        assert (given["tool"], given["rule"], given["hosts"]) == ("launch", "", [])
        client.approvals.revoke_permission("t", given["permission_id"])
        with pytest.raises(NotFound):
            client.approvals.revoke_permission("t", given["permission_id"])
        client.chat("Again", thread_id="t")
        assert len(client.approvals.list("t")) == 1
