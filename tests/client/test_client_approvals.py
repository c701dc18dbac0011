"""Tools that wait for a person's word, from Python."""

import asyncio
from typing import Any

import pytest
from langgraph.types import interrupt

from deerflow.agents.middlewares.guardrails import GuardrailDecision, GuardrailReason, GuardrailRequest
from deerflow.client import DeerFlowClient
from deerflow.domain.errors import Conflict, InvalidRequest, NotFound
from deerflow.testing import ScriptedModel, calling, in_parallel

LAUNCH = {"name": "launch", "group": "space", "use": "tests.client.test_client_approvals:launch", "approval": "always"}
ASK = {"name": "ask", "group": "space", "use": "tests.client.test_client_approvals:ask"}


def launch(rocket: str) -> str:
    """Launch a rocket.

    Args:
        rocket: Its name.
    """
    return f"{rocket} is in the air"


def ask(question: str) -> str:
    """Ask in a way of one's own.

    Args:
        question: What is asked.
    """
    return f"the answer is {interrupt({'question': question})}"


def opened(*turns: Any) -> DeerFlowClient:
    return DeerFlowClient({"tools": [LAUNCH, ASK]}, model=ScriptedModel.saying(*turns))


def results(client: DeerFlowClient) -> list[str]:
    messages = client.get_thread("t")["checkpoints"][0]["values"]["messages"]
    return [message["content"] for message in messages if message["type"] == "tool"]


def test_where_nothing_waits_nothing_can_be_answered() -> None:
    with opened("Hello.") as client:
        client.chat("Hi", thread_id="t")
        assert client.pending("t") == []
        for attempt in (
            lambda: client.approve("t"),
            lambda: client.reject("t"),
            lambda: client.edit("t", {}),
            lambda: client.resume("t", "yes"),
            lambda: list(client.stream_resume("t", "yes")),
        ):
            with pytest.raises(Conflict, match="nothing waits for an answer in thread 't'"):
                attempt()
        with pytest.raises(NotFound):
            client.approve("none")


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
def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays_open(answer: object) -> None:
    with opened(calling("launch", rocket="Saturn"), "Done.") as client:
        client.chat("Launch it", thread_id="t")
        with pytest.raises(InvalidRequest, match=r"does not decide what waits \(launch\)"):
            client.resume("t", answer)
        assert client.approve("t") == "Done."


def test_a_call_that_waits_is_seen_and_approved() -> None:
    with opened(calling("launch", rocket="Saturn"), "Done.") as client:
        assert client.chat("Launch it", thread_id="t") == ""
        (question,) = client.pending("t")
        (call,) = question["value"]["action_requests"]
        assert (call["name"], call["args"]) == ("launch", {"rocket": "Saturn"})
        assert client.approve("t") == "Done."
        assert results(client) == ["Saturn is in the air"] and client.pending("t") == []


def test_a_call_is_made_with_other_arguments() -> None:
    with opened(calling("launch", rocket="Saturn"), "Done.") as client:
        client.chat("Launch it", thread_id="t")
        assert client.edit("t", {"rocket": "Ariane"}) == "Done."
        assert "Ariane is in the air" in results(client)[0]


@pytest.mark.parametrize(("reason", "told"), [("not today", "not today"), (None, "The tool was not executed")])
def test_a_call_is_rejected_and_the_agent_told_why(reason: str | None, told: str) -> None:
    with opened(calling("launch", rocket="Saturn"), "As you like.") as client:
        client.chat("Launch it", thread_id="t")
        assert client.reject("t", reason) == "As you like."
        assert told in results(client)[0]


def test_a_run_may_pause_again() -> None:
    with opened(calling("launch", rocket="Saturn"), calling("launch", rocket="Ariane"), "Both.") as client:
        client.chat("Launch them", thread_id="t")
        assert client.approve("t") == ""
        assert client.approve("t") == "Both."
        assert results(client) == ["Saturn is in the air", "Ariane is in the air"]


def test_several_calls_are_decided_together_or_one_by_one() -> None:
    both = [calling("launch", rocket="Saturn"), calling("launch", rocket="Ariane")]
    for decide, made in (
        (lambda client: client.approve("t"), [True, True]),
        (
            lambda client: client.resume("t", {"decisions": [{"type": "reject"}, {"type": "approve"}]}),
            [False, True],
        ),
    ):
        with opened(in_parallel(*both), "Done.") as client:
            client.chat("Launch them", thread_id="t")
            with pytest.raises(InvalidRequest, match=r"2 calls wait in thread 't' \(launch, launch\)"):
                client.edit("t", {"rocket": "Soyuz"})
            assert decide(client) == "Done."
            assert ["in the air" in result for result in results(client)][-2:] == made


def test_a_question_of_ones_own_takes_any_answer() -> None:
    with opened(calling("ask", question="How many?"), "Done.") as client:
        client.chat("Ask me", thread_id="t")
        assert client.pending("t")[0]["value"] == {"question": "How many?"}
        with pytest.raises(InvalidRequest, match="not a tool call but .*How many"):
            client.approve("t")
        assert client.resume("t", 42) == "Done."
        assert results(client) == ["the answer is 42"]


def test_what_follows_an_answer_is_followed() -> None:
    with opened(calling("launch", rocket="Saturn"), "Done.") as client:
        paused = list(client.stream("Launch it", thread_id="t"))
        assert [event.data for event in paused if event.type == "values"][-1]["__interrupt__"]
        events = list(client.stream_resume("t", {"decisions": [{"type": "approve"}]}))
        words = [
            event.data["content"] for event in events if event.type == "messages-tuple" and event.data["type"] == "ai"
        ]
        assert "".join(words) == "Done." and events[-1].type == "end"


def test_an_answer_is_taken_after_a_restart() -> None:
    with opened(calling("launch", rocket="Saturn")) as client:
        client.chat("Launch it", thread_id="t")
    with opened("Done.") as client:
        assert client.approve("t") == "Done."


async def test_the_async_faces_do_the_same() -> None:
    turns = [turn for name in "abcd" for turn in (calling("launch", rocket=name), f"{name}.")]
    approve = {"decisions": [{"type": "approve"}]}
    async with opened(*turns) as client, asyncio.timeout(20):
        for name, decide in (
            ("a", client.aapprove("t")),
            ("b", client.areject("t", "no")),
            ("c", client.aedit("t", {"rocket": "C"})),
            ("d", client.aresume("t", approve)),
        ):
            await client.achat("Launch", thread_id="t")
            assert len(await client.apending("t")) == 1
            assert await decide == f"{name}."


def test_saying_something_else_drops_what_waits() -> None:
    with opened(calling("launch", rocket="Saturn"), "As you like.") as client:
        client.chat("Launch it", thread_id="t")
        assert client.chat("Never mind", thread_id="t") == "As you like."
        assert client.pending("t") == []
        with pytest.raises(Conflict):
            client.approve("t")


class AsksAlways:
    """A provider of somebody's own that has a person decide about everything."""

    name = "always"

    async def aevaluate(self, request: GuardrailRequest) -> GuardrailDecision:
        return GuardrailDecision(False, (GuardrailReason("always", "always asked"),), ask=True)


def test_what_a_guardrail_asks_is_answered_like_an_approval() -> None:
    provider = {"use": "tests.client.test_client_approvals:AsksAlways"}
    config = {"tools": [{**LAUNCH, "approval": "never"}], "guardrails": {"provider": provider}}
    model = ScriptedModel.saying(calling("launch", rocket="Saturn"), "Up it went.")
    with DeerFlowClient(config, model=model) as client:
        client.chat("Launch it", thread_id="t")
        (question,) = client.pending("t")
        assert "always asked" in question["value"]["action_requests"][0]["description"]
        assert client.approve("t") == "Up it went."
        assert results(client) == ["Saturn is in the air"]
