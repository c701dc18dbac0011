"""Compaction of long conversations: splitting, clipping and verified summaries."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from deerflow.agent_support.compaction import (
    extract_summary,
    find_latest_request,
    find_literals,
    fit_to_window,
    format_transcript,
    split_conversation,
    verify_summary,
)
from deerflow.agent_support.tokens import clip_text, count_message_tokens, count_text_tokens, count_tokens
from deerflow.domain.errors import ModelError


def human_message(text: str, **flags: Any) -> HumanMessage:
    return HumanMessage(text, id=text[:20], additional_kwargs=flags)


def tool_step(number: int, results: int = 2, text: str = "found") -> list[AnyMessage]:
    calls: Any = [{"name": "look", "args": {"at": n}, "id": f"{number}-{n}"} for n in range(results)]
    tools = [ToolMessage(text, tool_call_id=f"{number}-{n}", id=f"t{number}-{n}") for n in range(results)]
    return [AIMessage("", tool_calls=calls, id=f"a{number}"), *tools]


STEPS = st.lists(st.sampled_from(["ask", "hidden", "pinned", "answer", "step"]), min_size=1, max_size=12)


def conversation(kinds: list[str]) -> list[AnyMessage]:
    messages: list[AnyMessage] = []
    for number, kind in enumerate(kinds):
        if kind == "step":
            messages += tool_step(number, results=1 + number % 3)
        elif kind == "answer":
            messages.append(AIMessage(f"answer {number}", id=f"a{number}"))
        else:
            flags = {"hide_from_ui": kind == "hidden", "pinned": kind == "pinned"}
            messages.append(human_message(f"{kind} {number}", **flags))
    return messages


@given(STEPS, st.integers(0, 10), st.integers(0, 300))
def test_a_split_keeps_the_request_pinned_messages_and_complete_tool_calls(
    kinds: list[str], keep: int, tokens: int
) -> None:
    messages = conversation(kinds)
    parts = split_conversation(messages, keep, tokens)
    assert sorted(map(str, [*parts.dropped, *parts.kept])) == sorted(map(str, messages))
    assert [message for message in messages if message in parts.kept] == parts.kept
    assert find_latest_request(parts.kept) == find_latest_request(messages)
    assert not any(message.additional_kwargs.get("pinned") for message in parts.dropped)
    for side in (parts.dropped, parts.kept):
        call_ids = [call["id"] for message in side if isinstance(message, AIMessage) for call in message.tool_calls]
        assert call_ids == [message.tool_call_id for message in side if isinstance(message, ToolMessage)]


def test_the_current_step_is_kept_regardless_of_its_size() -> None:
    messages = [human_message("look at everything"), *tool_step(1), *tool_step(2, results=30, text="x" * 1000)]
    assert split_conversation(messages, 5, 100).kept == [messages[0], *messages[4:]]


def test_a_trailing_warning_does_not_displace_the_current_step() -> None:
    messages = [
        human_message("look"),
        *tool_step(1),
        *tool_step(2, text="x" * 1000),
        human_message("you repeat yourself", hide_from_ui=True),
    ]
    assert split_conversation(messages, 1, 50).kept == [messages[0], *messages[4:]]


@given(st.lists(st.integers(0, 4000), min_size=1, max_size=20), st.integers(600, 5000))
def test_any_messages_fit_the_window(sizes: list[int], limit: int) -> None:
    messages: list[AnyMessage] = [
        human_message(f"{number} " + "wört " * (size // 5)) for number, size in enumerate(sizes)
    ]
    assert count_tokens(fit_to_window(messages, limit)) <= limit


def test_a_large_result_is_clipped_before_the_request() -> None:
    request = human_message("please " + "read " * 200)
    fitted = fit_to_window([request, *tool_step(1, text="data " * 10_000)], 2000)
    assert fitted[0] is request
    assert all("characters left out" in message.text for message in fitted[2:])


def test_a_request_larger_than_the_window_keeps_both_ends() -> None:
    fitted = fit_to_window([human_message("begin " + "x" * 100_000 + " end")], 500)
    assert fitted[0].text.startswith("begin")
    assert fitted[0].text.endswith("end")


def test_long_tool_arguments_are_clipped() -> None:
    call: Any = {"name": "write", "args": {"path": "/a", "content": "x" * 9000}, "id": "1"}
    fitted = fit_to_window(
        [human_message("go"), AIMessage("", tool_calls=[call]), ToolMessage("ok", tool_call_id="1")], 500
    )
    assert isinstance(fitted[1], AIMessage)
    assert fitted[1].tool_calls[0]["args"]["path"] == "/a"


def test_too_many_messages_raise_a_model_error() -> None:
    with pytest.raises(ModelError, match="1000 messages do not fit into the 100 tokens"):
        fit_to_window([AIMessage(str(number)) for number in range(1000)], 100)


@given(st.text(max_size=400), st.integers(20, 200))
def test_clipped_texts_stay_within_the_limit(text: str, limit: int) -> None:
    assert count_text_tokens(clip_text(text, limit)) <= limit + 16


def test_an_invented_path_is_removed_from_the_summary() -> None:
    dropped = [human_message("Put 4711 into /srv/plan.txt")]
    summary = "The user wants 4711 in /srv/plan.txt.\nThe rest is in /srv/other.txt.\nNothing else."
    verified = verify_summary(summary, "", dropped, (), 500)
    assert "/srv/plan.txt" in verified
    assert "/srv/other.txt" not in verified


def test_a_mostly_invented_summary_is_replaced_by_an_extract() -> None:
    verified = verify_summary("See /a/b/c.\nAnd 12345.", "", [human_message("Plan a party for 200 guests")], (), 500)
    assert "Plan a party for 200 guests" in verified
    assert "12345" not in verified


def test_open_todos_and_missing_literals_are_added() -> None:
    todos: Any = [{"content": "call Ms Li", "status": "pending"}, {"content": "sleep", "status": "completed"}]
    verified = verify_summary("They talked.", "", [human_message("Her number is 030-1234567")], todos, 500)
    assert "call Ms Li" in verified
    assert "sleep" not in verified
    assert "030-1234567" in verified


def test_the_size_of_a_summary_is_limited() -> None:
    dropped = [human_message(f"number {n:06} at /data/{n}") for n in range(5000)]
    todos: Any = [{"content": "x" * 300, "status": "pending"}] * 50
    assert count_text_tokens(verify_summary("word " * 9000, "before " * 9000, dropped, todos, 1000)) <= 1100


def test_an_extract_contains_the_previous_summary_and_requests() -> None:
    text = extract_summary("Known: 42", [human_message("First line\nsecond line"), AIMessage("no")], 200)
    assert "Known: 42" in text
    assert "First line" in text
    assert "second line" not in text


def test_literals_are_paths_urls_dates_and_numbers() -> None:
    text = "See /mnt/a.txt, https://x.org/y (2026-11-15) or call 030-1234, and/or wait 5 minutes."
    assert find_literals(text) == ["/mnt/a.txt", "https://x.org/y", "2026-11-15", "030-1234", "and/or"]


def test_short_messages_leave_space_for_long_ones() -> None:
    text = format_transcript([human_message("a"), human_message("b" * 600), human_message("c")], 200)
    assert text.count("b") > 400
    assert count_text_tokens(text) <= 210


def test_images_are_counted_and_omitted_last() -> None:
    image: Any = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 90_000}}
    message = HumanMessage([{"type": "text", "text": "look"}, image])
    assert count_message_tokens(message) < 3000
    assert "image_url left out" in str(
        fit_to_window([AIMessage(message.content), human_message("and?")], 300)[0].content
    )
