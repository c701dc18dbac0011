"""Conversion of messages to the chat completions format."""

import json
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from deerflow.domain.errors import InvalidRequest
from deerflow.models.openai_compatible.messages import to_json, to_wire_messages
from deerflow.models.openai_compatible.vendors import DEFAULT_VENDOR, VENDORS, Vendor, find_vendor

PNG = "data:image/png;base64,iVBO"
IMAGE = {"type": "image_url", "image_url": {"url": PNG}}


def convert(*messages: BaseMessage, vendor: Vendor = DEFAULT_VENDOR) -> list[dict[str, Any]]:
    return to_wire_messages(messages, vendor)


def build_call(name: str = "ls", call_id: str = "1", **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": call_id, "type": "tool_call"}


def test_converts_roles_calls_and_results() -> None:
    wire = convert(
        SystemMessage("Be brief."),
        HumanMessage("Look.", name="todo_reminder"),
        AIMessage("", tool_calls=[build_call(path="/mnt/鹿")], name="lead"),
        ToolMessage("a.txt", tool_call_id="1", status="error"),
        AIMessage("One file."),
    )

    call = {"id": "1", "type": "function", "function": {"name": "ls", "arguments": '{"path":"/mnt/鹿"}'}}
    assert wire == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "a.txt"},
        {"role": "assistant", "content": "One file."},
    ]


def test_sends_an_invalid_call_back_unchanged() -> None:
    invalid = {"name": "ls", "args": "path: /", "id": "1", "error": None, "type": "invalid_tool_call"}

    [message] = convert(AIMessage("", invalid_tool_calls=[invalid]))

    assert message["tool_calls"][0]["function"] == {"name": "ls", "arguments": "path: /"}


@pytest.mark.parametrize(
    "block",
    [
        IMAGE,
        {"type": "image", "base64": "iVBO", "mime_type": "image/png"},
        {"type": "image", "source_type": "base64", "data": "iVBO", "mime_type": "image/png"},
        {"type": "image", "url": PNG},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}},
        {"type": "image", "source": {"type": "url", "url": PNG}},
    ],
    ids=["openai", "standard", "standard before 1.0", "address", "anthropic", "anthropic address"],
)
def test_converts_images_of_all_formats(block: dict[str, Any]) -> None:
    [message] = convert(HumanMessage([{"type": "text", "text": "What is this?"}, block]))

    assert message["content"] == [{"type": "text", "text": "What is this?"}, IMAGE]


def test_sends_text_blocks_as_plain_text() -> None:
    blocks = ["one", {"type": "text", "text": "two", "cache_control": {"type": "ephemeral"}}]

    assert convert(HumanMessage(blocks))[0]["content"] == "one\ntwo"
    assert convert(ToolMessage(blocks, tool_call_id="1"))[0]["content"] == "one\ntwo"


def test_sends_images_of_tool_results_in_a_user_message() -> None:
    wire = convert(
        HumanMessage("Look at both."),
        AIMessage("", tool_calls=[build_call("view", "1"), build_call("view", "2")]),
        ToolMessage([{"type": "text", "text": "a.png"}, IMAGE], tool_call_id="1"),
        ToolMessage([IMAGE], tool_call_id="2"),
        AIMessage("Nice."),
    )

    assert [message["role"] for message in wire] == ["user", "assistant", "tool", "tool", "user", "assistant"]
    assert [message["content"] for message in wire[2:4]] == ["a.png", "The result follows in the next message."]
    assert wire[4]["content"] == [IMAGE, IMAGE]
    assert convert(*[ToolMessage([IMAGE], tool_call_id="1")])[-1] == {"role": "user", "content": [IMAGE]}


def test_omits_blocks_of_other_vendors() -> None:
    content: list[Any] = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "Yes."},
        {"type": "tool_use", "id": "1", "name": "ls", "input": {}},
    ]

    assert convert(AIMessage(content))[0]["content"] == "Yes."


@pytest.mark.parametrize("message", [RemoveMessage("1"), HumanMessage([{"type": "video", "url": "https://x"}])])
def test_rejects_unsupported_content(message: BaseMessage) -> None:
    with pytest.raises(InvalidRequest, match="cannot be sent"):
        convert(message)


def build_turn(reasoning_field: str | None = None) -> list[BaseMessage]:
    metadata = {"reasoning_field": reasoning_field} if reasoning_field else {}
    thought: dict[str, Any] = {"response_metadata": metadata, "tool_calls": [build_call()]}
    return [
        HumanMessage("first"),
        AIMessage("", additional_kwargs={"reasoning_content": "old"}, **thought),
        ToolMessage("done", tool_call_id="1"),
        AIMessage("answered", additional_kwargs={"reasoning_content": "old too"}),
        HumanMessage("second"),
        AIMessage("", additional_kwargs={"reasoning_content": "new"}, **thought),
        ToolMessage("done", tool_call_id="1"),
    ]


def list_reasoning(wire: list[dict[str, Any]], field: str) -> list[str]:
    return [message[field] for message in wire if field in message]


@pytest.mark.parametrize(
    ("base_url", "field", "sent"),
    [
        ("https://api.deepseek.com", "reasoning_content", ["new"]),
        ("https://api.moonshot.ai/v1", "reasoning_content", ["old", "old too", "new"]),
        ("https://openrouter.ai/api/v1", "reasoning", ["old", "old too", "new"]),
        ("http://localhost:8000/v1", "reasoning_content", ["new"]),
        ("https://api.openai.com/v1", "reasoning_content", []),
        ("https://my.openai.azure.com/openai/v1", "reasoning_content", []),
        ("https://api.mistral.ai/v1", "reasoning_content", []),
    ],
)
def test_sends_reasoning_back_to_vendors_that_require_it(base_url: str, field: str, sent: list[str]) -> None:
    assert list_reasoning(convert(*build_turn(), vendor=find_vendor(base_url)), field) == sent


def test_sends_reasoning_back_in_the_received_field() -> None:
    wire = convert(*build_turn(reasoning_field="reasoning"))

    assert list_reasoning(wire, "reasoning") == ["new"]
    assert list_reasoning(wire, "reasoning_content") == []


def test_sends_reasoning_details_back_unchanged() -> None:
    details = [{"type": "reasoning.text", "text": "hm", "signature": "s"}]
    message = AIMessage("Yes.", additional_kwargs={"reasoning_content": "hm", "reasoning_details": details})

    [wire] = convert(message, vendor=find_vendor("https://openrouter.ai/api/v1"))

    assert wire == {"role": "assistant", "content": "Yes.", "reasoning_details": details}


def test_sends_thought_signatures_back_to_google_only() -> None:
    signature = {"google": {"thought_signature": "s"}}
    message = AIMessage("", tool_calls=[build_call()], additional_kwargs={"tool_call_extras": {"1": signature}})
    google = find_vendor("https://generativelanguage.googleapis.com/v1beta/openai")

    assert convert(message, vendor=google)[0]["tool_calls"][0]["extra_content"] == signature
    assert "extra_content" not in convert(message)[0]["tool_calls"][0]


@pytest.mark.parametrize("vendor", [vendor for vendor in VENDORS if vendor.sends_back_reasoning == "never"], ids=str)
def test_sends_no_unknown_fields_to_strict_vendors(vendor: Vendor) -> None:
    known = {"role", "content", "tool_calls", "tool_call_id"}

    assert all(message.keys() <= known for message in convert(*build_turn(), vendor=vendor))


@pytest.mark.parametrize(
    ("base_url", "name"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://eu.api.openai.com/v1", "openai"),
        ("https://ark.cn-beijing.volces.com/api/v3", "volcengine"),
        ("https://api.openai.com.example.org/v1", "openai-compatible"),
        ("http://127.0.0.1:11434/v1", "openai-compatible"),
        ("not an address", "openai-compatible"),
    ],
)
def test_finds_a_vendor_by_host(base_url: str, name: str) -> None:
    assert find_vendor(base_url).name == name


def test_finds_a_vendor_by_name() -> None:
    assert find_vendor("https://proxy.example.org/v1", "moonshot").name == "moonshot"


@pytest.mark.parametrize("value", [10**30, "\ud83d", 1.5, "鹿"])
def test_sends_any_call_arguments_back(value: Any) -> None:
    body = to_json(convert(AIMessage("", tool_calls=[build_call(value=value)])))

    arguments = json.loads(json.loads(body)[0]["tool_calls"][0]["function"]["arguments"])
    assert arguments == {"value": value}
