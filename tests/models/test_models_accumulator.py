"""Accumulation of reasoning, tool calls and usage from deltas."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.models.openai_compatible.accumulator import (
    StreamAccumulator,
    ThinkTagSplitter,
    parse_response,
    to_usage_metadata,
)
from deerflow.models.openai_compatible.tool_calls import make_invalidating_suffix
from deerflow.models.openai_compatible.vendors import DEFAULT_VENDOR, find_vendor


def split(*pieces: str) -> tuple[str, str]:
    tags = ThinkTagSplitter()
    parts = [tags.split(piece) for piece in pieces] + [tags.close()]
    return "".join(reasoning for reasoning, _ in parts), "".join(answer for _, answer in parts)


@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        ("<think>hm</think>\n\nYes", "hm", "Yes"),
        ("\n <think>hm</think>Yes", "hm", "Yes"),
        ("<think></think>Yes", "", "Yes"),
        ("<think>never closed </th", "never closed </th", ""),
        ("Yes <think>no</think>", "", "Yes <think>no</think>"),
        ("<thought>", "", "<thought>"),
        ("<thi", "", "<thi"),
        ("  Yes", "", "  Yes"),
        ("<think>a</think>b<think>c</think>", "a", "b<think>c</think>"),
    ],
)
def test_treats_only_a_leading_tag_as_reasoning(text: str, reasoning: str, answer: str) -> None:
    assert split(text) == (reasoning, answer)
    assert split(*text) == (reasoning, answer)


@given(st.lists(st.sampled_from(["<", "<think>", "</think>", "think", ">", "a", " ", "\n"]), max_size=12))
def test_splits_tags_across_deltas_as_in_one_text(pieces: list[str]) -> None:
    assert split(*pieces) == split("".join(pieces))


def accumulate(*calls: dict[str, Any]) -> StreamAccumulator:
    accumulator = StreamAccumulator(DEFAULT_VENDOR)
    for call in calls:
        accumulator.add({"choices": [{"delta": {"tool_calls": [call]}}]})
    return accumulator


def build_function(name: str | None = None, arguments: Any = None) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def test_later_chunks_do_not_repeat_id_and_name() -> None:
    accumulator = accumulate({"index": 0, "id": "a", "function": build_function("ls", "{")})
    first = accumulator.take_chunk()
    accumulator.add(
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "a", "function": build_function("ls", "}")}]}}]}
    )
    second = accumulator.take_chunk()

    assert [(chunk["id"], chunk["name"], chunk["args"]) for chunk in first.tool_call_chunks] == [("a", "ls", "{")]
    assert [(chunk["id"], chunk["name"], chunk["args"]) for chunk in second.tool_call_chunks] == [(None, None, "}")]
    assert (first + second).tool_calls == [{"name": "ls", "args": {}, "id": "a", "type": "tool_call"}]


def test_calls_without_index_and_id_start_with_their_name() -> None:
    message = accumulate(
        {"function": build_function("ls", '{"path":')},
        {"function": build_function(None, '"/"}')},
        {"function": build_function("date", "{}")},
    ).finish()

    assert [(call["name"], call["args"]) for call in message.tool_calls] == [("ls", {"path": "/"}), ("date", {})]


def test_accepts_arguments_as_an_object() -> None:
    message = accumulate({"index": 0, "id": "a", "function": build_function("ls", {"path": "/"})}).finish()

    assert message.tool_calls[0]["args"] == {"path": "/"}


def test_assigns_a_separate_signature_to_the_previous_call() -> None:
    signature = {"google": {"thought_signature": "s"}}
    message = accumulate({"id": "a", "function": build_function("ls", "{}")}, {"extra_content": signature}).finish()

    assert message.additional_kwargs["tool_call_extras"] == {"a": signature}


def test_keeps_think_tags_in_answers_of_openai() -> None:
    accumulator = StreamAccumulator(find_vendor("https://api.openai.com/v1"))
    accumulator.add({"choices": [{"delta": {"content": "<think> is a tag"}}]})

    assert accumulator.finish().content == "<think> is a tag"


def test_separates_a_refusal_from_the_answer() -> None:
    accumulator = StreamAccumulator(DEFAULT_VENDOR)
    accumulator.add({"choices": [{"delta": {"refusal": "I can"}}]})
    accumulator.add({"choices": [{"delta": {"refusal": "not."}}]})

    message = accumulator.finish()

    assert (message.content, message.additional_kwargs) == ("", {"refusal": "I cannot."})


def test_separates_valid_and_invalid_calls_of_a_response() -> None:
    calls = [
        {"id": "good", "type": "function", "function": build_function("ls", '{"path": "/"}')},
        {"id": "bad", "type": "function", "function": build_function("ls", '{"path": ')},
    ]
    message = {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": calls}
    response = {"id": "c", "model": "m", "choices": [{"message": message, "finish_reason": "tool_calls"}]}

    answer = parse_response(response, DEFAULT_VENDOR)

    assert [call["id"] for call in answer.tool_calls] == ["good"]
    assert [(call["id"], call["args"]) for call in answer.invalid_tool_calls] == [("bad", '{"path": ')]
    assert answer.additional_kwargs["reasoning_content"] == "hm"
    assert answer.response_metadata["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(
    ("usage", "cached"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 3}, "prompt_cache_hit_tokens": 9}, 3),
        ({"prompt_cache_hit_tokens": 3}, 3),
        ({"cached_tokens": 3}, 3),
        ({"prompt_tokens_details": None}, None),
    ],
)
def test_reads_cached_tokens_of_all_vendors(usage: dict[str, Any], cached: int | None) -> None:
    counted = to_usage_metadata({"prompt_tokens": 5, "completion_tokens": 2, **usage})

    assert counted["total_tokens"] == 7
    assert counted["input_token_details"].get("cache_read") == cached


CUT_ARGUMENTS = [
    '{"path": "/x", "content": "abc',
    '{"a": 1,',
    '{"a": {"b": [1, 2',
    '{"a": "say \\"hi',
    '{"a": "end\\\\',
    '{"a": tru',
    "{",
]


@pytest.mark.parametrize("arguments", CUT_ARGUMENTS)
def test_does_not_complete_truncated_arguments(arguments: str) -> None:
    accumulator = StreamAccumulator(DEFAULT_VENDOR)
    call = {"index": 0, "id": "call_1", "function": {"name": "write_file", "arguments": arguments}}
    accumulator.add({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]})
    message = accumulator.take_chunk() + accumulator.finish()
    assert message.tool_calls == []
    assert message.invalid_tool_calls[0]["id"] == "call_1"
    assert message.invalid_tool_calls[0]["args"].startswith(arguments)


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.none() | st.lists(st.booleans())))
def test_keeps_complete_arguments(arguments: dict[str, object]) -> None:
    assert make_invalidating_suffix(json.dumps(arguments)) == ""
    assert make_invalidating_suffix('{"text": "two\nlines"}') == ""
