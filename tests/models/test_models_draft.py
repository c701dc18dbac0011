"""Reasoning, tool calls and costs, put together from deltas."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.models.draft import Draft, whole_answer
from deerflow.models.quirks import OTHER, vendor_of
from deerflow.models.thinking_tags import ThinkingTags
from deerflow.models.tool_calls import spoiler_for
from deerflow.models.usage import usage_metadata


def split(*pieces: str) -> tuple[str, str]:
    tags = ThinkingTags()
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
def test_only_a_leading_tag_is_reasoning(text: str, reasoning: str, answer: str) -> None:
    assert split(text) == (reasoning, answer)
    assert split(*text) == (reasoning, answer)


@given(st.lists(st.sampled_from(["<", "<think>", "</think>", "think", ">", "a", " ", "\n"]), max_size=12))
def test_tags_split_over_deltas_give_the_same_as_in_one_piece(pieces: list[str]) -> None:
    assert split(*pieces) == split("".join(pieces))


def deltas(*calls: dict[str, Any]) -> Draft:
    draft = Draft(OTHER)
    for call in calls:
        draft.add({"choices": [{"delta": {"tool_calls": [call]}}]})
    return draft


def function(name: str | None = None, arguments: Any = None) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def test_later_pieces_do_not_repeat_the_id_and_the_name_of_a_call() -> None:
    draft = deltas({"index": 0, "id": "a", "function": function("ls", "{")})
    first = draft.take()
    draft.add({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "a", "function": function("ls", "}")}]}}]})
    second = draft.take()

    assert [(chunk["id"], chunk["name"], chunk["args"]) for chunk in first.tool_call_chunks] == [("a", "ls", "{")]
    assert [(chunk["id"], chunk["name"], chunk["args"]) for chunk in second.tool_call_chunks] == [(None, None, "}")]
    assert (first + second).tool_calls == [{"name": "ls", "args": {}, "id": "a", "type": "tool_call"}]


def test_calls_without_index_and_id_begin_with_their_name() -> None:
    message = deltas(
        {"function": function("ls", '{"path":')},
        {"function": function(None, '"/"}')},
        {"function": function("date", "{}")},
    ).finish()

    assert [(call["name"], call["args"]) for call in message.tool_calls] == [("ls", {"path": "/"}), ("date", {})]


def test_arguments_that_come_as_an_object_are_arguments() -> None:
    message = deltas({"index": 0, "id": "a", "function": function("ls", {"path": "/"})}).finish()

    assert message.tool_calls[0]["args"] == {"path": "/"}


def test_a_signature_that_comes_alone_belongs_to_the_call_before_it() -> None:
    signature = {"google": {"thought_signature": "s"}}
    message = deltas({"id": "a", "function": function("ls", "{}")}, {"extra_content": signature}).finish()

    assert message.additional_kwargs["tool_call_extras"] == {"a": signature}


def test_openai_may_write_about_think_tags() -> None:
    draft = Draft(vendor_of("https://api.openai.com/v1"))
    draft.add({"choices": [{"delta": {"content": "<think> is a tag"}}]})

    assert draft.finish().content == "<think> is a tag"


def test_a_refusal_is_kept_apart_from_the_answer() -> None:
    draft = Draft(OTHER)
    draft.add({"choices": [{"delta": {"refusal": "I can"}}]})
    draft.add({"choices": [{"delta": {"refusal": "not."}}]})

    message = draft.finish()

    assert (message.content, message.additional_kwargs) == ("", {"refusal": "I cannot."})


def test_a_whole_answer_tells_valid_calls_from_invalid_ones() -> None:
    calls = [
        {"id": "good", "type": "function", "function": function("ls", '{"path": "/"}')},
        {"id": "bad", "type": "function", "function": function("ls", '{"path": ')},
    ]
    message = {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": calls}
    response = {"id": "c", "model": "m", "choices": [{"message": message, "finish_reason": "tool_calls"}]}

    answer = whole_answer(response, OTHER)

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
def test_cached_tokens_are_found_where_vendors_put_them(usage: dict[str, Any], cached: int | None) -> None:
    counted = usage_metadata({"prompt_tokens": 5, "completion_tokens": 2, **usage})

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
def test_arguments_that_end_in_the_middle_are_never_completed_by_guessing(arguments: str) -> None:
    draft = Draft(OTHER)
    call = {"index": 0, "id": "call_1", "function": {"name": "write_file", "arguments": arguments}}
    draft.add({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]})
    message = draft.take() + draft.finish()
    assert message.tool_calls == []
    assert message.invalid_tool_calls[0]["id"] == "call_1"
    assert message.invalid_tool_calls[0]["args"].startswith(arguments)


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.none() | st.lists(st.booleans())))
def test_whole_arguments_stay_as_they_are(arguments: dict[str, object]) -> None:
    assert spoiler_for(json.dumps(arguments)) == ""
    assert spoiler_for('{"text": "two\nlines"}') == ""
