"""What of a conversation may be learned from."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from deerflow.memory.filtering import MOST_CHARS, worth_learning
from deerflow.runtime.said import Said

LS = {"name": "ls", "args": {}, "id": "c"}
HIDDEN = {"hide_from_ui": True}
FILES = "<uploaded_files>\n- secret.pdf\n</uploaded_files>"


@pytest.mark.parametrize(
    ("messages", "kept"),
    [
        ([HumanMessage("Hello", id="h"), AIMessage("Hi", id="a")], ["Hello", "Hi"]),
        ([HumanMessage("Look", id="h"), AIMessage("I look.", id="a", tool_calls=[LS])], ["Look"]),
        (
            [HumanMessage("Look", id="h"), ToolMessage("secret", tool_call_id="c"), AIMessage("Ok", id="a")],
            ["Look", "Ok"],
        ),
        ([HumanMessage("Today is Monday", id="h", additional_kwargs=HIDDEN)], []),
        ([HumanMessage(f"{FILES}\n\nSum it up", id="h"), AIMessage("A sum", id="a")], ["Sum it up", "A sum"]),
        ([HumanMessage(FILES, id="h"), AIMessage("It says that", id="a"), HumanMessage("Ok", id="h2")], ["Ok"]),
        ([HumanMessage("Tell <uploaded_files>\nnever closed", id="h")], ["Tell"]),
        ([HumanMessage(f"a {FILES} b {FILES} c <current_uploads>x</current_uploads>", id="h")], ["a  b  c"]),
        ([HumanMessage("  ", id="h"), AIMessage("", id="a")], []),
        ([HumanMessage([{"type": "text", "text": "See"}, {"type": "image_url", "image_url": "x"}], id="h")], ["See"]),
    ],
)
def test_people_and_final_answers_are_read_and_nothing_else(messages: Sequence[BaseMessage], kept: list[str]) -> None:
    said = Said()
    said.hear(messages)
    assert [message.text for message in worth_learning(said.messages.values(), said.steps)] == kept


def test_the_same_is_read_from_the_log_of_a_run_whose_process_died() -> None:
    logged = [
        {"id": "h", "type": "human", "content": "Look", "additional_kwargs": {}},
        {"id": "a", "type": "ai", "content": "I look.", "additional_kwargs": {}, "tool_calls": [LS]},
        {"id": "b", "type": "ai", "content": "Nothing.", "additional_kwargs": {}, "tool_calls": []},
    ]
    said = Said()
    said.hear_logged({"messages": logged}, datetime.now(UTC))
    assert [message.text for message in worth_learning(said.messages.values(), said.steps)] == ["Look", "Nothing."]


def test_of_a_long_message_both_ends_are_read() -> None:
    said = Said()
    said.hear([HumanMessage("begin" + "x" * 3 * MOST_CHARS + "end", id="h")])
    (kept,) = worth_learning(said.messages.values(), said.steps)
    assert len(kept.text) <= MOST_CHARS and kept.text.startswith("begin") and kept.text.endswith("end")
