"""Retries and fallbacks after model failures."""

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
from deerflow.agents.middlewares.model_calls import ModelRecoveryMiddleware, RetryClock
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

DEFAULTS = LlmCallConfig()
ENDPOINT = httpx.Request("POST", "http://endpoint/v1")


class RecordedWaits(list[float]):
    """Clock that records delays instead of waiting."""

    async def sleep(self, seconds: float) -> None:
        self.append(seconds)

    def clock(self, between: Callable[[float, float], float] = max) -> RetryClock:
        return RetryClock(self.sleep, self.append, between)


def create_test_agent(model: Any, waits: RecordedWaits, *fallbacks: Any, settings: LlmCallConfig = DEFAULTS) -> Any:
    recovery = ModelRecoveryMiddleware(settings, fallbacks, waits.clock())
    return create_agent(model, middleware=[recovery], state_schema=ThreadState)


async def ask(agent: Any) -> tuple[str, list[dict[str, Any]]]:
    """Return the answer and the streamed events."""
    events, answer = [], ""
    async for mode, part in agent.astream({"messages": [HumanMessage("hi")]}, stream_mode=["custom", "values"]):
        if mode == "custom":
            events.append(part)
        else:
            answer = part["messages"][-1].text
    return answer, events


@pytest.mark.parametrize("error", [ModelUnavailable("502"), ModelTimeout("silence"), ModelStreamCut("cut")])
async def test_the_original_error_is_raised_when_all_attempts_fail(error: ModelError) -> None:
    waits = RecordedWaits()
    model = ScriptedModel.saying(error, error, error)
    with pytest.raises(type(error)):
        await ask(create_test_agent(model, waits))
    assert len(model.requests) == 3 and len(waits) == 2


@pytest.mark.parametrize("error", [ModelRejected("no such model"), ValueError("a bug")])
async def test_permanent_errors_are_not_retried(error: Exception) -> None:
    waits = RecordedWaits()
    with pytest.raises(type(error)):
        await ask(create_test_agent(ScriptedModel.saying(error), waits))
    assert waits == []


async def test_a_bug_does_not_trigger_the_fallback() -> None:
    with pytest.raises(ValueError, match="a bug"):
        await ask(
            create_test_agent(
                ScriptedModel.saying(ValueError("a bug")), RecordedWaits(), ScriptedModel.saying("Hello.")
            )
        )


async def test_library_errors_are_raised_as_model_errors() -> None:
    down = APIConnectionError(request=ENDPOINT)
    with pytest.raises(ModelUnavailable, match="Connection error"):
        await ask(create_test_agent(ScriptedModel.saying(down, down, down), RecordedWaits()))


async def test_a_rate_limit_waits_for_retry_after_and_streams_an_event() -> None:
    waits = RecordedWaits()
    model = ScriptedModel.saying(ModelRateLimited("slow down", 2.5), "Hello.")

    answer, events = await ask(create_test_agent(model, waits))

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


async def test_a_very_long_retry_after_triggers_the_fallback() -> None:
    waits = RecordedWaits()
    limited = ScriptedModel.saying(ModelRateLimited("come back later", 3600))
    answer, _ = await ask(create_test_agent(limited, waits, ScriptedModel.saying("Hello from another.")))
    assert answer == "Hello from another."
    assert waits == [0.0]


async def test_fallback_models_are_tried_in_order_with_the_same_retries() -> None:
    waits = RecordedWaits()
    first = ScriptedModel.saying(*[ModelUnavailable("down")] * 3)
    second = ScriptedModel.saying(ModelRejected("your account is empty"))
    third = ScriptedModel.saying(ModelTimeout("silence"), "Hello from the third.")

    answer, events = await ask(create_test_agent(first, waits, second, third))

    assert answer == "Hello from the third."
    assert [event["message"] for event in events] == [
        "The model could not be reached. Trying again in 1 s.",
        "The model could not be reached. Trying again in 3 s.",
        "The model could not be reached. Trying another model.",
        "The model refused the request. Trying another model.",
        "The model stayed silent. Trying again in 1 s.",
    ]
    assert waits == [1.0, 3.0, 0.0, 0.0, 1.0]


async def test_the_last_error_is_raised_when_all_models_fail() -> None:
    with pytest.raises(ModelTimeout):
        await ask(
            create_test_agent(
                ScriptedModel.saying(ModelRejected("no")),
                RecordedWaits(),
                ScriptedModel.saying(*[ModelTimeout("silence")] * 3),
            )
        )


async def test_one_attempt_means_no_retry() -> None:
    waits = RecordedWaits()
    with pytest.raises(ModelUnavailable):
        single_attempt = LlmCallConfig(retry_max_attempts=1)
        await ask(create_test_agent(ScriptedModel.saying(ModelUnavailable("down")), waits, settings=single_attempt))
    assert waits == []


def test_synchronous_calls_recover_too() -> None:
    waits = RecordedWaits()
    agent = create_test_agent(ScriptedModel.saying(ModelUnavailable("down"), "Hello."), waits)
    assert agent.invoke({"messages": [HumanMessage("hi")]})["messages"][-1].text == "Hello."
    assert waits == [1.0]


async def test_a_partial_answer_and_its_retry_are_different_messages() -> None:
    texts: dict[str, str] = {}
    script = [CutAfter(2, Answer("one two three four")), RateLimited(retry_after=1), "A whole answer."]
    async with ScriptedServer(script) as server:
        model = OpenAICompatibleChatModel(model="scripted", base_url=server.base_url, stream_coalesce_ms=0)
        agent = create_test_agent(model, RecordedWaits())
        parts = agent.astream({"messages": [HumanMessage("hi")]}, stream_mode=["messages", "values"])
        async for mode, part in parts:
            if mode == "messages":
                texts[part[0].id] = texts.get(part[0].id, "") + part[0].text
            else:
                state = part["messages"]

    partial, whole = texts.values()
    assert partial.startswith("one") and whole == "A whole answer."
    assert [message.text for message in state] == ["hi", "A whole answer."]
    assert list(texts)[1] == state[-1].id


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
        (APIStatusError("prompt is too long", response=response(400), body=None), "too_long", None),
        (APIStatusError("model: gpt-9 not found", response=response(404), body=None), "unknown_model", None),
        (APIStatusError("max_tokens is negative", response=response(400), body=None), "rejected", None),
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
def test_library_errors_are_classified(error: Exception, reason: str, wait_s: float | None) -> None:
    failure = classify_failure(error)
    assert failure is not None
    assert (failure.reason, failure.retry_after_s) == (reason, wait_s)


@pytest.mark.parametrize("error", [KeyError("x"), AssertionError("script ended"), RuntimeError("loop is closed")])
def test_bugs_are_not_classified_as_model_failures(error: Exception) -> None:
    assert classify_failure(error) is None


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(0, 10_000), st.floats(0, 1))
def test_delays_stay_between_base_and_cap(one: int, other: int, random_value: float) -> None:
    retry_settings = LlmCallConfig(
        retry_max_attempts=5, retry_base_delay_ms=min(one, other), retry_cap_delay_ms=max(one, other)
    )
    waits = RecordedWaits()
    model = ScriptedModel.saying(*[ModelUnavailable("down")] * 4, "Hello.")
    recovery = ModelRecoveryMiddleware(
        retry_settings, (), waits.clock(lambda low, high: low + (high - low) * random_value)
    )

    create_agent(model, middleware=[recovery]).invoke({"messages": [HumanMessage("hi")]})

    assert len(waits) == 4
    assert all(min(one, other) <= wait * 1000 + 1e-6 and wait * 1000 <= max(one, other) + 1e-6 for wait in waits)


def test_a_cap_delay_below_the_base_delay_is_refused() -> None:
    with pytest.raises(ValidationError, match="must not be less than retry_base_delay_ms"):
        LlmCallConfig(retry_base_delay_ms=2000, retry_cap_delay_ms=1000)
