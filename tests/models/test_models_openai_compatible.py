"""The OpenAI-compatible client against a real HTTP server."""

import asyncio
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.load import dumps
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.tools import tool
from pydantic import BaseModel, ValidationError

from deerflow.domain.errors import (
    ModelError,
    ModelKeyRejected,
    ModelNotFound,
    ModelQuotaExceeded,
    ModelRateLimited,
    ModelRejected,
    ModelStreamCut,
    ModelTimeout,
    ModelUnavailable,
)
from deerflow.models.openai_compatible.client import OpenAICompatibleChatModel
from deerflow.testing import (
    Answer,
    CutAfter,
    RateLimited,
    Raw,
    ScriptedServer,
    ServerFault,
    Stall,
    ToolRequest,
    Usage,
    calling,
    thinking,
)

KEY = "sk-very-secret"


def create_client(server: ScriptedServer, **settings: Any) -> OpenAICompatibleChatModel:
    return OpenAICompatibleChatModel(**{"model": "scripted", "base_url": server.base_url, "api_key": KEY} | settings)


@tool
def get_weather(city: str) -> str:
    """Say how the weather is."""
    return f"sunny in {city}"


async def test_streams_reasoning_separately_and_usage_at_the_end() -> None:
    answer = Answer("It is four.", "Two and two.", usage=Usage(9, 7, cached_tokens=4, reasoning_tokens=3))
    async with ScriptedServer([answer]) as server:
        chunks = [chunk async for chunk in create_client(server, stream_coalesce_ms=0).astream("2+2?")]

    assert [chunk.content for chunk in chunks] == ["", "", "", "It", " is", " four.", ""]
    assert [chunk.additional_kwargs.get("reasoning_content") for chunk in chunks[:3]] == ["Two", " and", " two."]
    assert chunks[-1].usage_metadata == {
        "input_tokens": 9,
        "output_tokens": 7,
        "total_tokens": 16,
        "input_token_details": {"cache_read": 4},
        "output_token_details": {"reasoning": 3},
    }
    assert chunks[-1].response_metadata == {
        "model_provider": "openai-compatible",
        "finish_reason": "stop",
        "model_name": "scripted",
        "id": "chatcmpl-1",
    }


async def test_returns_the_same_answer_with_and_without_streaming() -> None:
    turn = thinking("Hm.", then=Answer("Look:", calls=(ToolRequest("ls", '{"path": "/"}', "1"),)))
    async with ScriptedServer([turn, turn]) as server:
        model = create_client(server)
        whole = await model.ainvoke("hi")
        streamed = await model.ainvoke("hi", stream=True)

    assert not server.requests[0].body.get("stream")
    assert server.requests[1].body["stream"] is True
    for field in ("content", "tool_calls", "additional_kwargs", "usage_metadata"):
        assert getattr(streamed, field) == getattr(whole, field)
    assert streamed.response_metadata["finish_reason"] == whole.response_metadata["finish_reason"] == "tool_calls"


async def test_content_blocks_separate_reasoning_and_text() -> None:
    async with ScriptedServer([thinking("Hm.", then="Yes.")]) as server:
        message = await create_client(server).ainvoke("hi")

    assert [block["type"] for block in message.content_blocks] == ["reasoning", "text"]


async def test_an_agent_keeps_reasoning_within_the_tool_turn() -> None:
    turns = [thinking("Ask the tool.", then=calling("get_weather", city="Paris")), "It is sunny."]
    async with ScriptedServer(turns) as server:
        agent = create_agent(create_client(server), [get_weather])
        result = await agent.ainvoke({"messages": [HumanMessage("Weather in Paris?")]})

    assert result["messages"][-1].content == "It is sunny."
    _, asked, answered = server.requests[1].messages
    assert asked["reasoning_content"] == "Ask the tool."
    assert asked["tool_calls"][0]["function"] == {"name": "get_weather", "arguments": '{"city":"Paris"}'}
    assert answered == {"role": "tool", "tool_call_id": asked["tool_calls"][0]["id"], "content": "sunny in Paris"}


async def test_an_agent_streams_single_tokens() -> None:
    async with ScriptedServer([Answer("one two three")]) as server:
        agent = create_agent(create_client(server, stream_coalesce_ms=0))
        stream = agent.astream({"messages": [HumanMessage("hi")]}, stream_mode="messages")
        texts = [chunk.content async for chunk, _ in stream if isinstance(chunk, AIMessageChunk)]

    assert texts == ["one", " two", " three", ""]


async def test_cancelling_closes_the_connection_at_once() -> None:
    async with ScriptedServer([Stall(Answer("one two"))]) as server, asyncio.timeout(5):
        answer = asyncio.create_task(create_client(server).ainvoke("hi", stream=True))
        await server.waiting.wait()
        answer.cancel()
        await server.disconnected.wait()

    with pytest.raises(asyncio.CancelledError):
        await answer


async def test_closes_the_connection_when_the_reader_stops_early() -> None:
    async with ScriptedServer([Stall(Answer("one two"))]) as server, asyncio.timeout(5):
        stream = create_client(server).astream("hi")
        assert (await anext(stream)).content
        await stream.aclose()  # type: ignore[attr-defined]
        await server.disconnected.wait()


async def test_reuses_the_connection_after_a_complete_answer() -> None:
    async with ScriptedServer(["one", "two", "three"]) as server:
        model = create_client(server)
        await model.ainvoke("hi", stream=True)
        await model.ainvoke("hi")
        await model.aclose()
        await model.ainvoke("hi")

    first, second, third = [request.client for request in server.requests]
    assert first == second != third


async def test_closing_the_model_aborts_an_active_answer() -> None:
    async with ScriptedServer([Stall(Answer("one two"))]) as server, asyncio.timeout(5):
        model = create_client(server)
        stream = model.astream("hi")
        await anext(stream)
        await model.aclose()
        with pytest.raises(ModelStreamCut):
            await anext(stream)


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, ModelRejected),
        (401, ModelKeyRejected),
        (402, ModelQuotaExceeded),
        (403, ModelKeyRejected),
        (404, ModelNotFound),
        (422, ModelRejected),
        (429, ModelRateLimited),
        (500, ModelUnavailable),
        (503, ModelUnavailable),
        (529, ModelUnavailable),
    ],
)
async def test_maps_a_status_to_a_named_error(status: int, error: type[ModelError], streamed: bool) -> None:
    async with ScriptedServer([ServerFault(status, f"no good, {KEY}")]) as server:
        with pytest.raises(error, match=rf"\({status}\): no good") as caught:
            await create_client(server).ainvoke("hi", stream=streamed)

    assert type(caught.value) is error
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"error": {"message": "m", "metadata": {"raw": "upstream said no"}}}', "m: upstream said no"),
        (b'[{"error": {"code": 400, "message": "from google"}}]', "from google"),
        (b'{"detail": "not found here"}', "not found here"),
        (b'{"detail": [{"loc": ["body"], "msg": "missing"}]}', "missing"),
        (b'{"object": "error", "message": "from vllm", "code": 400}', "from vllm"),
        (b"<h1>Bad gateway</h1>", "Bad gateway"),
        (b"", "no explanation given"),
    ],
)
async def test_reads_error_messages_in_all_formats(body: bytes, text: str) -> None:
    async with ScriptedServer([Raw((body,), status=400, content_type="application/json")]) as server:
        with pytest.raises(ModelRejected, match=text):
            await create_client(server).ainvoke("hi")


async def test_an_exhausted_quota_is_not_a_rate_limit() -> None:
    body = b'{"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}'
    async with ScriptedServer([Raw((body,), status=429, content_type="application/json")]) as server:
        with pytest.raises(ModelRejected, match="current quota"):
            await create_client(server).ainvoke("hi")


def format_retry_date() -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)


@pytest.mark.parametrize(
    ("retry_after", "is_right"),
    [
        (lambda: 7, lambda seconds: seconds == 7),
        (lambda: "1.5", lambda seconds: seconds == 1.5),
        (format_retry_date, lambda seconds: 50 < seconds <= 60),
        (lambda: "Wed, 21 Oct 2015 07:28:00 GMT", lambda seconds: seconds == 0),
        (lambda: "soon", lambda seconds: seconds is None),
        (lambda: None, lambda seconds: seconds is None),
    ],
    ids=["seconds", "fraction", "date", "past date", "nonsense", "absent"],
)
async def test_a_rate_limit_contains_the_retry_delay(
    retry_after: Callable[[], Any], is_right: Callable[[Any], bool]
) -> None:
    async with ScriptedServer([RateLimited(retry_after())]) as server:
        with pytest.raises(ModelRateLimited) as caught:
            await create_client(server).ainvoke("hi", stream=True)

    assert is_right(caught.value.retry_after_s)


async def test_raises_a_timeout_without_data() -> None:
    async with ScriptedServer([Stall(Answer("one two")), Stall()]) as server, asyncio.timeout(5):
        model = create_client(server, timeout=0.05)
        for _ in range(2):
            with pytest.raises(ModelTimeout, match=r"sent no data for 0\.05 s"):
                await model.ainvoke("hi", stream=True)


@pytest.mark.parametrize("pieces", [0, 2])
async def test_reports_a_truncated_stream(pieces: int) -> None:
    async with ScriptedServer([CutAfter(pieces)]) as server:
        with pytest.raises(ModelStreamCut):
            await create_client(server).ainvoke("hi", stream=True)


async def test_reports_an_unreachable_endpoint() -> None:
    async with ScriptedServer() as server:
        model = create_client(server)
    with pytest.raises(ModelUnavailable, match="connection to http"):
        await model.ainvoke("hi")


async def test_rejects_a_web_page() -> None:
    async with ScriptedServer([Raw((b"<html>",), content_type="text/html")]) as server:
        with pytest.raises(ModelRejected, match="base_url is probably wrong"):
            await create_client(server).ainvoke("hi", stream=True)


async def test_does_not_follow_redirects() -> None:
    async with ScriptedServer([Raw((), status=308)]) as server:
        with pytest.raises(ModelRejected, match="redirects"):
            await create_client(server).ainvoke("hi")


async def test_rejects_an_invalid_url() -> None:
    with pytest.raises(ModelRejected, match="not a URL"):
        await OpenAICompatibleChatModel(model="m", base_url="localhost").ainvoke("hi")


async def test_accepts_a_server_without_streaming() -> None:
    body = b'{"id": "c", "model": "m", "choices": [{"message": {"content": "All."}, "finish_reason": "stop"}]}'
    async with ScriptedServer([Raw((body,), content_type="application/json")]) as server:
        chunks = [chunk.content async for chunk in create_client(server).astream("hi")]

    assert chunks == ["All."]


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("body", [b"{}", b'{"choices": []}', b'{"choices": null}'])
async def test_raises_for_a_response_without_an_answer(body: bytes, streamed: bool) -> None:
    async with ScriptedServer([Raw((body,), content_type="application/json")]) as server:
        with pytest.raises(ModelUnavailable, match="returned no answer"):
            await create_client(server).ainvoke("hi", stream=streamed)


async def test_works_in_several_event_loops() -> None:
    async with ScriptedServer(["one", "two"]) as server:
        model = create_client(server)

        def ask_twice() -> list[Any]:
            return [asyncio.run(model.ainvoke("hi", stream=True)).content for _ in range(2)]

        assert await asyncio.to_thread(ask_twice) == ["one", "two"]


async def run_in_child(base_url: str, **environment: str) -> tuple[bytes, bytes]:
    """Return the output of a program that makes one call and never closes the model."""
    program = (
        "import asyncio; from deerflow.models.openai_compatible.client import OpenAICompatibleChatModel;"
        f"model = OpenAICompatibleChatModel(model='m', base_url={base_url!r}, api_key='k');"
        "print(asyncio.run(model.ainvoke('hi', stream=True)).content)"
    )
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "always::ResourceWarning", "-c", program),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": ":".join(sys.path), **environment},
    )
    async with asyncio.timeout(60):
        return await child.communicate()


@pytest.mark.slow
async def test_prints_no_warning_without_close() -> None:
    async with ScriptedServer(["one"]) as server:
        assert await run_in_child(server.base_url) == (b"one\n", b"")


@pytest.mark.slow
async def test_uses_the_proxy_of_the_environment_and_not_netrc(tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text("default login someone password secret")
    async with ScriptedServer(["by proxy"]) as proxy:
        address = proxy.base_url.removesuffix("/v1")
        printed = await run_in_child(
            "http://model.invalid/v1", HTTP_PROXY=address, http_proxy=address, HOME=str(tmp_path)
        )

    assert printed == (b"by proxy\n", b"")
    assert proxy.requests[0].headers["Host"] == "model.invalid"
    assert proxy.requests[0].headers["Authorization"] == "Bearer k"


async def test_synchronous_methods_return_the_same() -> None:
    async with ScriptedServer([Answer("one two"), Answer("three four"), ServerFault(500)]) as server:
        model = create_client(server, stream_coalesce_ms=0)

        assert (await asyncio.to_thread(model.invoke, "hi")).content == "one two"
        assert await asyncio.to_thread(lambda: [chunk.content for chunk in model.stream("hi")]) == [
            "three",
            " four",
            "",
        ]
        with pytest.raises(ModelUnavailable):
            await asyncio.to_thread(model.invoke, "hi")


async def test_closes_the_connection_when_a_synchronous_reader_stops_early() -> None:
    async with ScriptedServer([Stall(Answer("one two"))]) as server, asyncio.timeout(5):
        model = create_client(server)

        def read_one() -> None:
            stream = model.stream("hi")
            next(stream)
            stream.close()  # type: ignore[attr-defined]

        await asyncio.to_thread(read_one)
        await server.disconnected.wait()


async def send_request(vendor: str | None = None, *, options: Any = None, **settings: Any) -> Any:
    async with ScriptedServer(["ok"]) as server:
        await create_client(server, vendor=vendor, **settings).ainvoke("hi", **(options or {}))
    return server.requests[0].body


async def test_sends_settings_and_call_options() -> None:
    body = await send_request(
        temperature=0.5,
        top_p=0.9,
        seed=7,
        stop=["END"],
        max_tokens=100,
        reasoning_effort="low",
        extra_body={"top_k": 5, "chat_template_kwargs": {"enable_thinking": False}},
        options={"temperature": 0.1, "stop": ["STOP"], "extra_body": {"top_k": 9}},
    )

    assert body == {
        "model": "scripted",
        "messages": [{"role": "user", "content": "hi"}],
        "temperature": 0.1,
        "top_p": 0.9,
        "seed": 7,
        "stop": ["STOP"],
        "max_tokens": 100,
        "reasoning_effort": "low",
        "top_k": 9,
        "chat_template_kwargs": {"enable_thinking": False},
    }


async def test_sends_the_fields_of_the_vendor() -> None:
    assert "max_completion_tokens" in await send_request("openai", max_tokens=5)
    assert "max_tokens" in await send_request("deepseek", max_tokens=5)
    streamed = {"stream": True}
    assert (await send_request("openai", options=streamed))["stream_options"] == {"include_usage": True}
    assert "stream_options" not in await send_request("mistral", options=streamed)
    assert "stream_options" not in await send_request("openai", options=streamed, stream_usage=False)


@pytest.mark.parametrize(
    ("model", "effort", "sent"),
    [("gpt-5.6", None, "none"), ("gpt-5.6", "high", "high"), ("gpt-5-mini", None, None), ("gpt-4.1", None, None)],
)
async def test_disables_reasoning_with_tools_where_openai_requires_it(
    model: str, effort: str | None, sent: str | None
) -> None:
    async with ScriptedServer(["ok"]) as server:
        bound = create_client(server, vendor="openai", model=model, reasoning_effort=effort).bind_tools([get_weather])
        await bound.ainvoke("hi")

    assert server.requests[0].body.get("reasoning_effort") == sent


@pytest.mark.parametrize(
    ("choice", "wire"),
    [
        ("get_weather", {"type": "function", "function": {"name": "get_weather"}}),
        ("any", "required"),
        (True, "required"),
        ("auto", "auto"),
        ("none", "none"),
        ({"type": "function", "function": {"name": "x"}}, {"type": "function", "function": {"name": "x"}}),
        (None, None),
        (False, None),
    ],
)
async def test_sends_the_tool_choice(choice: Any, wire: Any) -> None:
    async with ScriptedServer(["ok"]) as server:
        model = create_client(server).bind_tools(
            [get_weather], tool_choice=choice, strict=True, parallel_tool_calls=False
        )
        await model.ainvoke("hi")

    body = server.requests[0].body
    assert body.get("tool_choice") == wire
    assert body["parallel_tool_calls"] is False
    assert body["tools"][0]["function"]["name"] == "get_weather"
    assert body["tools"][0]["function"]["strict"] is True


class Joke(BaseModel):
    """A joke."""

    setup: str
    punchline: str


class JokeDict(TypedDict):
    """A joke."""

    setup: str
    punchline: str


JOKE = {"setup": "Why?", "punchline": "Because."}
JOKE_TEXT = '{"setup": "Why?", "punchline": "Because."}'
JOKE_SCHEMA = {
    "title": "Joke",
    "description": "A joke.",
    "type": "object",
    "properties": {"setup": {"type": "string"}, "punchline": {"type": "string"}},
    "required": ["setup", "punchline"],
}


@pytest.mark.parametrize(
    ("schema", "name", "expected"),
    [(Joke, "Joke", Joke(**JOKE)), (JokeDict, "JokeDict", JOKE), (JOKE_SCHEMA, "Joke", JOKE)],
    ids=["pydantic", "TypedDict", "JSON schema"],
)
async def test_parses_structured_output(schema: Any, name: str, expected: Any) -> None:
    async with ScriptedServer([JOKE_TEXT, calling(name, **JOKE)]) as server:
        model = create_client(server)
        by_schema = await model.with_structured_output(schema, method="json_schema").ainvoke("A joke!")
        by_call = await model.with_structured_output(schema, method="function_calling").ainvoke("A joke!")

    assert by_schema == by_call == expected
    asked = [request.body for request in server.requests]
    assert asked[0]["response_format"]["json_schema"]["name"] == name
    assert asked[0]["response_format"]["json_schema"]["schema"]["required"] == ["setup", "punchline"]
    assert asked[1]["tool_choice"] == {"type": "function", "function": {"name": name}}


async def test_structured_output_with_the_raw_message_does_not_raise() -> None:
    async with ScriptedServer(["not a joke", JOKE_TEXT]) as server:
        model = create_client(server).with_structured_output(Joke, method="json_schema", include_raw=True)
        bad, good = await model.ainvoke("A joke!"), await model.ainvoke("A joke!")

    assert bad["parsed"] is None and bad["parsing_error"] is not None and bad["raw"].content == "not a joke"
    assert good["parsed"] == Joke(**JOKE) and good["parsing_error"] is None


async def test_json_mode_needs_no_schema() -> None:
    async with ScriptedServer([JOKE_TEXT]) as server:
        assert await create_client(server).with_structured_output(None, method="json_mode").ainvoke("A joke!") == JOKE

    assert server.requests[0].body["response_format"] == {"type": "json_object"}


async def test_an_agent_gets_a_structured_response() -> None:
    async with ScriptedServer([calling("Joke", **JOKE)]) as server:
        agent = create_agent(create_client(server), response_format=Joke)
        result = await agent.ainvoke({"messages": [HumanMessage("A joke!")]})

    assert result["structured_response"] == Joke(**JOKE)


async def test_sends_the_key_as_a_bearer_token_and_never_shows_it() -> None:
    async with ScriptedServer(["ok"]) as server:
        model = create_client(server, default_headers={"X-Team": "deer"})
        await model.ainvoke("hi")

    headers = server.requests[0].headers
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert headers["X-Team"] == "deer"
    assert KEY not in repr(model) + str(model) + dumps(model) + str(model._identifying_params)


def test_rejects_unknown_settings_and_vendors() -> None:
    with pytest.raises(ValidationError, match="temprature"):
        OpenAICompatibleChatModel(model="m", temprature=1)
    with pytest.raises(ValidationError, match="must be one of"):
        OpenAICompatibleChatModel(model="m", vendor="nobody")


def test_accepts_api_base_as_an_alias() -> None:
    assert OpenAICompatibleChatModel(model="m", api_base="http://x/v1").base_url == "http://x/v1"


def test_traces_vendor_and_model() -> None:
    params = OpenAICompatibleChatModel(model="m", base_url="https://api.deepseek.com", temperature=0)._get_ls_params()

    assert params["ls_provider"] == "deepseek"
    assert params["ls_model_name"] == "m"
    assert params["ls_temperature"] == 0


async def test_sends_an_earlier_answer_of_another_vendor() -> None:
    other = AIMessage([{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "Yes."}])
    async with ScriptedServer(["ok"]) as server:
        await create_client(server).ainvoke([HumanMessage("hi"), other, HumanMessage("and?")])

    assert server.requests[0].messages[1] == {"role": "assistant", "content": "Yes."}


async def test_treats_arguments_that_are_no_object_as_an_invalid_call() -> None:
    async with ScriptedServer([Answer(calls=(ToolRequest("get_weather", '"here"', "call_1"),))]) as server:
        message = await create_client(server).ainvoke("hi")
    assert message.tool_calls == []
    assert [call["id"] for call in message.invalid_tool_calls] == ["call_1"]
