"""What happens when a model does not answer."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from anthropic import APIStatusError
from anthropic import RateLimitError as AnthropicRateLimitError
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from openai import (
    APIConnectionError,
    APIError,
    APITimeoutError,
    AuthenticationError,
    InternalServerError,
    RateLimitError,
)
from pydantic import ValidationError

from deerflow.agent_support.model_failures import classify_failure
from deerflow.agent_support.thread_state import ThreadState
from deerflow.agents.middlewares.model_calls.model_recovery import ModelRecoveryMiddleware, RetryClock
from deerflow.config.sections.runs import LlmCallConfig
from deerflow.domain.errors import (
    ModelError,
    ModelRateLimited,
    ModelRejected,
    ModelStreamCut,
    ModelTimeout,
    ModelUnavailable,
)
from deerflow.models.openai_compatible.client import OpenAICompatibleChatModel
from deerflow.testing import Answer, CutAfter, RateLimited, ScriptedModel, ScriptedServer

PATIENT = LlmCallConfig()
ENDPOINT = httpx.Request("POST", "http://endpoint/v1")


class Waits(list[float]):
    """A clock that does not wait but remembers for how long it would have."""

    async def sleep(self, seconds: float) -> None:
        self.append(seconds)

    def clock(self, between: Callable[[float, float], float] = max) -> RetryClock:
        return RetryClock(self.sleep, self.append, between)


def agent_with(model: Any, waits: Waits, *fallbacks: Any, settings: LlmCallConfig = PATIENT):
    recovery = ModelRecoveryMiddleware(settings, fallbacks, waits.clock())
    return create_agent(model, middleware=[recovery], state_schema=ThreadState)


async def ask(agent: Any) -> tuple[str, list[dict[str, Any]]]:
    """The answer, and what readers were told on the way."""
    events, answer = [], ""
    async for mode, part in agent.astream({"messages": [HumanMessage("hi")]}, stream_mode=["custom", "values"]):
        if mode == "custom":
            events.append(part)
        else:
            answer = part["messages"][-1].text
    return answer, events


@pytest.mark.parametrize("error", [ModelUnavailable("502"), ModelTimeout("silence"), ModelStreamCut("cut")])
async def test_when_all_attempts_fail_the_error_keeps_its_name(error: ModelError) -> None:
    waits = Waits()
    model = ScriptedModel.saying(error, error, error)
    with pytest.raises(type(error)):
        await ask(agent_with(model, waits))
    assert len(model.requests) == 3 and len(waits) == 2


@pytest.mark.parametrize("error", [ModelRejected("no such model"), ValueError("a bug")])
async def test_what_waiting_cannot_mend_is_not_tried_again(error: Exception) -> None:
    waits = Waits()
    with pytest.raises(type(error)):
        await ask(agent_with(ScriptedModel.saying(error), waits))
    assert waits == []


async def test_a_bug_is_not_answered_by_another_model() -> None:
    with pytest.raises(ValueError, match="a bug"):
        await ask(agent_with(ScriptedModel.saying(ValueError("a bug")), Waits(), ScriptedModel.saying("Hello.")))


async def test_an_error_of_a_library_ends_as_one_of_ours() -> None:
    down = APIConnectionError(request=ENDPOINT)
    with pytest.raises(ModelUnavailable, match="Connection error"):
        await ask(agent_with(ScriptedModel.saying(down, down, down), Waits()))


async def test_a_rate_limit_is_waited_for_as_long_as_the_endpoint_says_and_readers_are_told() -> None:
    waits = Waits()
    model = ScriptedModel.saying(ModelRateLimited("slow down", 2.5), "Hello.")

    answer, events = await ask(agent_with(model, waits))

    assert answer == "Hello."
    assert waits == [2.5]
    assert events == [
        {
            "type": "llm_retry",
            "attempt": 2,
            "max_attempts": 3,
            "wait_ms": 2500,
            "reason": "rate_limited",
            "message": "The model asks to slow down. Trying again in 2 s.",
        }
    ]


async def test_an_endpoint_that_wants_an_hour_of_patience_has_failed() -> None:
    waits = Waits()
    limited = ScriptedModel.saying(ModelRateLimited("come back later", 3600))
    answer, _ = await ask(agent_with(limited, waits, ScriptedModel.saying("Hello from another.")))
    assert answer == "Hello from another."
    assert waits == [0.0]


async def test_other_models_are_asked_in_order_each_as_patiently() -> None:
    waits = Waits()
    first = ScriptedModel.saying(*[ModelUnavailable("down")] * 3)
    second = ScriptedModel.saying(ModelRejected("your account is empty"))
    third = ScriptedModel.saying(ModelTimeout("silence"), "Hello from the third.")

    answer, events = await ask(agent_with(first, waits, second, third))

    assert answer == "Hello from the third."
    assert [event["message"] for event in events] == [
        "The model could not be reached. Trying again in 1 s.",
        "The model could not be reached. Trying again in 3 s.",
        "The model could not be reached. Trying another model.",
        "The model refused the request. Trying another model.",
        "The model stayed silent. Trying again in 1 s.",
    ]
    assert waits == [1.0, 3.0, 0.0, 0.0, 1.0]


async def test_when_all_models_fail_the_last_error_is_raised() -> None:
    with pytest.raises(ModelTimeout):
        await ask(
            agent_with(
                ScriptedModel.saying(ModelRejected("no")),
                Waits(),
                ScriptedModel.saying(*[ModelTimeout("silence")] * 3),
            )
        )


async def test_one_attempt_means_no_retry() -> None:
    waits = Waits()
    with pytest.raises(ModelUnavailable):
        once = LlmCallConfig(retry_max_attempts=1)
        await ask(agent_with(ScriptedModel.saying(ModelUnavailable("down")), waits, settings=once))
    assert waits == []


def test_the_sync_face_recovers_too() -> None:
    waits = Waits()
    agent = agent_with(ScriptedModel.saying(ModelUnavailable("down"), "Hello."), waits)
    assert agent.invoke({"messages": [HumanMessage("hi")]})["messages"][-1].text == "Hello."
    assert waits == [1.0]


async def test_half_an_answer_and_the_whole_one_are_different_messages() -> None:
    pieces: dict[str, str] = {}
    script = [CutAfter(2, Answer("one two three four")), RateLimited(retry_after=1), "A whole answer."]
    async with ScriptedServer(script) as server:
        model = OpenAICompatibleChatModel(model="scripted", base_url=server.base_url, stream_coalesce_ms=0)
        agent = agent_with(model, Waits())
        parts = agent.astream({"messages": [HumanMessage("hi")]}, stream_mode=["messages", "values"])
        async for mode, part in parts:
            if mode == "messages":
                pieces[part[0].id] = pieces.get(part[0].id, "") + part[0].text
            else:
                state = part["messages"]

    half, whole = pieces.values()
    assert half.startswith("one") and whole == "A whole answer."
    assert [message.text for message in state] == ["hi", "A whole answer."]
    assert list(pieces)[1] == state[-1].id


def response(status: int, **headers: str) -> httpx.Response:
    return httpx.Response(
        status, headers={name.replace("_", "-"): value for name, value in headers.items()}, request=ENDPOINT
    )


@pytest.mark.parametrize(
    ("error", "reason", "wait_s"),
    [
        (RateLimitError("slow", response=response(429, retry_after="7"), body=None), "rate_limited", 7.0),
        (RateLimitError("slow", response=response(429, retry_after_ms="250"), body=None), "rate_limited", 0.25),
        (AnthropicRateLimitError("slow", response=response(429), body=None), "rate_limited", None),
        (RateLimitError("insufficient_quota: pay", response=response(429), body=None), "quota", None),
        (AuthenticationError("bad key", response=response(401), body=None), "auth", None),
        (InternalServerError("oops", response=response(503), body=None), "unavailable", None),
        (APIStatusError("overloaded", response=response(529), body=None), "unavailable", None),
        (APIStatusError("overloaded in the stream", response=response(200), body=None), "unavailable", None),
        (APIStatusError("prompt is too long", response=response(400), body=None), "rejected", None),
        (APITimeoutError(request=ENDPOINT), "timeout", None),
        (APIConnectionError(request=ENDPOINT), "unavailable", None),
        (APIError("server error in the stream", request=ENDPOINT, body=None), "unavailable", None),
        (httpx.ReadTimeout("slow"), "timeout", None),
        (httpx.ConnectError("refused"), "unavailable", None),
        (httpx.RemoteProtocolError("peer closed connection"), "stream_cut", None),
        (ConnectionResetError("reset"), "unavailable", None),
        (TimeoutError(), "timeout", None),
    ],
)
def test_errors_of_libraries_are_recognised(error: Exception, reason: str, wait_s: float | None) -> None:
    failure = classify_failure(error)
    assert failure is not None
    assert (failure.reason, failure.retry_after_s) == (reason, wait_s)


@pytest.mark.parametrize("error", [KeyError("x"), AssertionError("script ended"), RuntimeError("loop is closed")])
def test_bugs_are_not_taken_for_failures_of_a_model(error: Exception) -> None:
    assert classify_failure(error) is None


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(0, 10_000), st.floats(0, 1))
def test_pauses_stay_between_base_and_cap(one: int, other: int, luck: float) -> None:
    patience = LlmCallConfig(
        retry_max_attempts=5, retry_base_delay_ms=min(one, other), retry_cap_delay_ms=max(one, other)
    )
    waits = Waits()
    model = ScriptedModel.saying(*[ModelUnavailable("down")] * 4, "Hello.")
    recovery = ModelRecoveryMiddleware(patience, (), waits.clock(lambda low, high: low + (high - low) * luck))

    create_agent(model, middleware=[recovery]).invoke({"messages": [HumanMessage("hi")]})

    assert len(waits) == 4
    assert all(min(one, other) <= wait * 1000 + 1e-6 and wait * 1000 <= max(one, other) + 1e-6 for wait in waits)


def test_a_longest_pause_below_the_shortest_is_refused() -> None:
    with pytest.raises(ValidationError, match="must not be less than retry_base_delay_ms"):
        LlmCallConfig(retry_base_delay_ms=2000, retry_cap_delay_ms=1000)
