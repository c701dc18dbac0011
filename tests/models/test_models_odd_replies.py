"""Replies that break the API: each is an answer or an error with a name, and none makes a client hang."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import pytest
import pytest_asyncio
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage

from deerflow.domain.errors import ModelError, ModelRejected, ModelUnavailable
from deerflow.models.usage import read_counts
from tests.models.support import (
    CLIENTS,
    EVENT_STREAM,
    JSON,
    OWN,
    ask,
    build_answer,
    build_event,
    build_response,
    build_stream,
    close,
    create_client,
    serve_bytes,
)

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings"),  # of the vendor's SDK
]
DEEP = reduce(lambda inner, _: [inner], range(200), [])
HUGE = 2**63
both_clients = pytest.mark.parametrize("client", CLIENTS)
both_modes = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@dataclass
class OddServer:
    """Server with one response at a time, and its clients, which are expensive to create."""

    response: bytes = b""
    models: dict[str, BaseChatModel] = field(default_factory=dict)

    async def respond(self, writer: asyncio.StreamWriter) -> None:
        writer.write(self.response)

    async def ask(self, client: str, streamed: bool, response: bytes) -> AIMessage | ModelError:
        """Return the outcome, which must be usable."""
        self.response = response
        outcome = await ask(self.models[client], streamed)
        if isinstance(outcome, AIMessage):
            assert isinstance(outcome.text, str)
            assert read_counts(outcome).input_tokens >= 0
            assert all(isinstance(call["args"], dict) for call in outcome.tool_calls)
        else:
            assert str(outcome)
        return outcome


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[OddServer]:
    server = OddServer()
    async with serve_bytes(server.respond) as base_url:
        server.models = {client: create_client(client, base_url) for client in CLIENTS}
        yield server
        for model in server.models.values():
            await close(model)


ODD_CHOICES: dict[str, Any] = {
    "null": None,
    "empty": [],
    "object": {},
    "number": 5,
    "text": "x",
    "list of null": [None],
    "list of numbers": [5],
    "list of lists": [[]],
    "empty choice": [{}],
    "message null": [{"message": None, "delta": None, "finish_reason": "stop"}],
    "message list": [{"message": [], "delta": [1], "finish_reason": "stop"}],
    "message text": [{"message": "hi", "delta": "hi", "finish_reason": "stop"}],
    "message number": [{"message": 5, "delta": 5, "finish_reason": "stop"}],
    "nested": DEEP,
}


@both_clients
@both_modes
@pytest.mark.parametrize("choices", ODD_CHOICES.values(), ids=list(ODD_CHOICES))
async def test_unusual_choices_are_an_answer_or_a_named_error(
    server: OddServer, client: str, streamed: bool, choices: Any
) -> None:
    event = {"id": "1", "object": "x", "model": "m", "choices": choices}
    await server.ask(client, streamed, build_answer(event, streamed))


@both_clients
@both_modes
async def test_missing_choices_are_an_answer_or_a_named_error(server: OddServer, client: str, streamed: bool) -> None:
    await server.ask(client, streamed, build_answer({"id": "1", "object": "x", "model": "m"}, streamed))


def call(**fields: Any) -> dict[str, Any]:
    """Return a message with one tool call, some of whose fields are odd."""
    function = {"name": "ls", "arguments": '{"path": "/"}'}
    return {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function, **fields}]}


def function(**fields: Any) -> dict[str, Any]:
    """Return a message with one tool call whose function has odd fields."""
    return call(function={"name": "ls", "arguments": "{}", **fields})


ODD_MESSAGES: dict[str, Any] = {
    "content number": {"content": 5},
    "content true": {"content": True},
    "content object": {"content": {"a": 1}},
    "content list of null": {"content": [None]},
    "content list of numbers": {"content": [5]},
    "content list of lists": {"content": [["x"]]},
    "content part without text": {"content": [{"type": "text"}]},
    "content part of a number": {"content": [{"type": "text", "text": 5}]},
    "content part without type": {"content": [{"text": "hi"}]},
    "thinking number": {"content": [{"type": "thinking", "thinking": 5}]},
    "thinking list of null": {"content": [{"type": "thinking", "thinking": [None]}]},
    "content nested": {"content": DEEP},
    "role number": {"role": 5, "content": "hi"},
    "role unknown": {"role": "king", "content": "hi"},
    "reasoning number": {"content": "hi", "reasoning_content": 5},
    "reasoning object": {"content": "hi", "reasoning": {"a": 1}},
    "reasoning details text": {"content": "hi", "reasoning_details": "x"},
    "reasoning details of null": {"content": "hi", "reasoning_details": [None, 5]},
    "refusal number": {"refusal": 5},
    "calls null": {"content": "hi", "tool_calls": None},
    "calls text": {"tool_calls": "x"},
    "calls number": {"tool_calls": 5},
    "calls object": {"tool_calls": {"a": 1}},
    "calls list of null": {"tool_calls": [None]},
    "calls list of numbers": {"tool_calls": [5]},
    "call empty": {"tool_calls": [{}]},
    "index missing": {"tool_calls": [{"id": "c1", "function": {"name": "ls", "arguments": "{}"}}]},
    "index null": call(index=None),
    "index negative": call(index=-1),
    "index huge": call(index=HUGE),
    "index text": call(index="0"),
    "index object": call(index={}),
    "index list": call(index=[]),
    "call id number": call(id=5),
    "call id object": call(id={}),
    "call id null": call(id=None),
    "call type number": call(type=5),
    "function null": call(function=None),
    "function text": call(function="ls"),
    "function number": call(function=5),
    "function list": call(function=[]),
    "function empty": call(function={}),
    "name null": function(name=None),
    "name number": function(name=5),
    "name object": function(name={"a": 1}),
    "arguments null": function(arguments=None),
    "arguments object": function(arguments={"path": "/"}),
    "arguments number": function(arguments=5),
    "arguments list": function(arguments=[1]),
    "arguments nested": function(arguments={"a": DEEP}),
    "arguments nested text": function(arguments='{"a": ' + "[" * 100_000),
    "arguments of many digits": function(arguments='{"a": ' + "9" * 5000 + "}"),
    "arguments no object": function(arguments="5"),
    "arguments no JSON": function(arguments="ls /"),
    "extra content number": call(extra_content=5),
}


@both_clients
@both_modes
@pytest.mark.parametrize("message", ODD_MESSAGES.values(), ids=list(ODD_MESSAGES))
async def test_an_unusual_message_is_an_answer_or_a_named_error(
    server: OddServer, client: str, streamed: bool, message: Any
) -> None:
    await server.ask(client, streamed, build_answer(build_event(message, streamed), streamed))


ODD_FIELDS: dict[str, dict[str, Any]] = {
    "usage null": {"usage": None},
    "usage text": {"usage": "x"},
    "usage number": {"usage": 5},
    "usage list": {"usage": [1]},
    "tokens negative": {"usage": {"prompt_tokens": -5, "completion_tokens": -1, "total_tokens": -6}},
    "tokens huge": {"usage": {"prompt_tokens": HUGE, "completion_tokens": HUGE, "total_tokens": HUGE}},
    "tokens text": {"usage": {"prompt_tokens": "many", "completion_tokens": "few", "total_tokens": "all"}},
    "tokens fraction": {"usage": {"prompt_tokens": 1.5, "completion_tokens": 1e300, "total_tokens": 2.5}},
    "tokens object": {"usage": {"prompt_tokens": {}, "completion_tokens": [], "total_tokens": {}}},
    "details number": {"usage": {"prompt_tokens": 1, "prompt_tokens_details": 5, "completion_tokens_details": 5}},
    "details text": {"usage": {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": "x"}}},
    "cached object": {"usage": {"prompt_tokens": 1, "prompt_cache_hit_tokens": {}}},
    "id number": {"id": 5},
    "id object": {"id": {}},
    "model number": {"model": 5},
    "object number": {"object": 5},
    "created text": {"created": "now"},
    "fingerprint list": {"system_fingerprint": [1]},
    "tier number": {"service_tier": 5},
}


@both_clients
@both_modes
@pytest.mark.parametrize("fields", ODD_FIELDS.values(), ids=list(ODD_FIELDS))
async def test_unusual_fields_are_an_answer_or_a_named_error(
    server: OddServer, client: str, streamed: bool, fields: dict[str, Any]
) -> None:
    await server.ask(client, streamed, build_answer(build_event({"content": "hi"}, streamed, **fields), streamed))


@both_clients
@both_modes
@pytest.mark.parametrize("reason", [5, {"a": 1}, ["stop"], True, "", None, "because"], ids=str)
async def test_an_unusual_finish_reason_is_an_answer_or_a_named_error(
    server: OddServer, client: str, streamed: bool, reason: Any
) -> None:
    event = build_event({"content": "hi"}, streamed)
    event["choices"][0]["finish_reason"] = reason
    await server.ask(client, streamed, build_answer(event, streamed))


ODD_PAYLOADS: dict[str, bytes] = {
    "list": b"[]",
    "list of lists": b"[[]]",
    "number": b"5",
    "text": b'"x"',
    "null": b"null",
    "true": b"true",
    "nothing": b"",
    "blank": b"  ",
    "half an object": b'{"choices": [',
    "not a number": b'{"choices": [], "usage": {"prompt_tokens": NaN}}',
    "infinity": b'{"choices": [], "usage": {"prompt_tokens": 1e999}}',
    "many digits": b'{"choices": [], "usage": {"prompt_tokens": ' + b"9" * 5000 + b"}}",
    "no UTF-8": b'{"choices": [{"index": 0, "delta": {"content": "\xff\xfe"}, "message": {"content": "\xff"}}]}',
    "half a character": b'{"choices": [{"delta": {"content": "\xe2\x82',
    "half a surrogate": b'{"choices": [{"delta": {"content": "\\ud800"}, "message": {"content": "\\ud800"}}]}',
    "a web page": b"<html><body>Welcome</body></html>",
    "nested": b"[" * 100_000,
    "zero bytes": bytes(100),
    "error text": b'{"error": "overloaded"}',
    "error number": b'{"error": 5}',
    "error list": b'{"error": [1]}',
    "error true": b'{"error": true}',
    "error empty": b'{"error": {}}',
    "error with odd fields": b'{"error": {"message": 5, "code": [], "type": {}}}',
    "error with an odd digit": '{"error": {"message": "x", "code": "²"}}'.encode(),
    "error with a long code": b'{"error": {"message": "x", "code": "' + b"9" * 5000 + b'"}}',
    "error in a list": b'[{"error": {"message": "x", "code": 400}}]',
    "error nested": b'{"error": ' + b"[" * 600 + b"]" * 600 + b"}",
    "error besides choices": b'{"choices": [], "error": {"message": "x"}}',
    "detail": b'{"detail": [{"loc": ["body"], "msg": "x"}]}',
    "message": b'{"object": "error", "message": "x", "code": 404}',
}


@both_clients
@both_modes
@pytest.mark.parametrize("payload", ODD_PAYLOADS.values(), ids=list(ODD_PAYLOADS))
async def test_an_unusual_payload_is_an_answer_or_a_named_error(
    server: OddServer, client: str, streamed: bool, payload: bytes
) -> None:
    await server.ask(client, streamed, build_answer(payload, streamed))


GOOD_EVENT = b'{"id":"1","object":"x","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"%s"}}]}'
ODD_RESPONSES: dict[str, Callable[[], bytes]] = {
    "no HTTP": lambda: b"hello\r\n\r\n",
    "nothing": lambda: b"",
    "a status line alone": lambda: b"HTTP/1.1 200 OK\r\n",
    "no status number": lambda: b"HTTP/1.1 OK\r\n\r\n",
    "an unknown status": lambda: build_response(b"{}", status="299 Odd"),
    "no content": lambda: b"HTTP/1.1 204 No Content\r\n\r\n",
    "switching protocols": lambda: b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    "a web page": lambda: build_response(b"<html>Welcome</html>", "text/html; charset=utf-8"),
    "a web page as JSON": lambda: build_response(b"<html>Welcome</html>"),
    "a web page as a stream": lambda: build_response(b"<html>Welcome</html>", EVENT_STREAM),
    "an odd type": lambda: build_response(b"hi", ";;;"),
    "a picture": lambda: build_response(bytes(range(256)), "image/png"),
    "an empty body": lambda: build_response(b""),
    "an empty stream": lambda: build_response(b"", EVENT_STREAM),
    "a stream of blank lines": lambda: build_response(b"\n" * 1000, EVENT_STREAM),
    "a stream of comments": lambda: build_response(b": ping\n\n" * 1000, EVENT_STREAM),
    "no compressed data": lambda: build_response(b"not gzip", Content_Encoding="gzip"),
    "half of compressed data": lambda: build_response(gzip.compress(b"{}" * 10_000)[:30], Content_Encoding="gzip"),
    "an unknown encoding": lambda: build_response(b"{}", Content_Encoding="rot13"),
    "no brotli": lambda: build_response(b"{}", Content_Encoding="br"),
    "no chunk size": lambda: (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"
    ),
    "a short body": lambda: build_response(b'{"choices": [', length=1000),
    "cut in a character": lambda: build_response(b"data: " + GOOD_EVENT % b"\xe2\x82", EVENT_STREAM, length=1000),
    "a negative length": lambda: build_response(b"{}", length=-1),
    "a redirect to itself": lambda: build_response(
        b"", status="307 Temporary Redirect", Location="/v1/chat/completions"
    ),
    "a redirect to nowhere": lambda: build_response(b"", status="302 Found"),
    "a redirect to no URL": lambda: build_response(b"", status="302 Found", Location="http://[::"),
    "an odd pause": lambda: build_response(b"{}", status="429 Slow", Retry_After="Mon, 16 Nov 2026 16:00:00 -0000"),
    "a pause without end": lambda: build_response(b"{}", status="429 Slow", Retry_After="9" * 400),
    "a pause of an odd number": lambda: build_response(b"{}", status="429 Slow", Retry_After="²"),
    "an error page": lambda: build_response(b"<html>Bad gateway</html>", "text/html", status="502 Bad Gateway"),
    "an error without a body": lambda: build_response(b"", status="500 Internal Server Error"),
    "an error in zero bytes": lambda: build_response(bytes(100), status="400 Bad Request"),
}


@both_clients
@both_modes
@pytest.mark.parametrize("build", ODD_RESPONSES.values(), ids=list(ODD_RESPONSES))
async def test_an_unusual_response_is_an_answer_or_a_named_error(
    server: OddServer, client: str, streamed: bool, build: Callable[[], bytes]
) -> None:
    await server.ask(client, streamed, build())


@both_clients
@both_modes
async def test_a_good_answer_is_read(server: OddServer, client: str, streamed: bool) -> None:
    outcome = await server.ask(client, streamed, build_answer(build_event({"content": "hi"}, streamed), streamed))
    assert isinstance(outcome, AIMessage) and outcome.text == "hi"


@both_clients
async def test_an_error_within_a_successful_response_is_an_error(server: OddServer, client: str) -> None:
    for streamed in (False, True):
        outcome = await server.ask(client, streamed, build_answer(b'{"error": {"message": "no capacity"}}', streamed))
        assert isinstance(outcome, ModelError), outcome


@both_clients
@both_modes
async def test_an_unreadable_answer_may_be_tried_again(server: OddServer, client: str, streamed: bool) -> None:
    outcome = await server.ask(client, streamed, build_answer(build_event({"content": 5}, streamed), streamed))
    assert isinstance(outcome, ModelUnavailable) or (client != OWN and isinstance(outcome, AIMessage)), outcome


@both_modes
async def test_odd_values_that_do_not_matter_are_ignored(server: OddServer, streamed: bool) -> None:
    message = {"content": "hi", "reasoning_content": 5, "refusal": [], "reasoning_details": "x"}
    fields = {"usage": "none", "id": 5, "model": None, "system_fingerprint": {}}
    response = build_answer(build_event(message, streamed, **fields), streamed)
    outcome = await server.ask(OWN, streamed, response)
    assert isinstance(outcome, AIMessage) and outcome.text == "hi"


async def test_a_redirect_names_the_url_to_use(server: OddServer) -> None:
    response = build_response(b"", JSON, status="308 Permanent Redirect", Location="https://example.com/v1")
    outcome = await server.ask(OWN, False, response)
    assert isinstance(outcome, ModelRejected) and "https://example.com/v1" in str(outcome)


@both_clients
async def test_events_after_an_odd_one_are_not_lost_in_silence(server: OddServer, client: str) -> None:
    response = build_response(build_stream(GOOD_EVENT % b"one ", b"5", GOOD_EVENT % b"two"), EVENT_STREAM)
    outcome = await server.ask(client, True, response)
    assert isinstance(outcome, ModelError) or outcome.text == "one two"
