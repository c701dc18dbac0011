"""Selection of the messages to extract from."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from deerflow.memory.signals import MAX_MESSAGE_CHARS, select_messages
from deerflow.runtime.transcript import Transcript

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
def test_selects_user_messages_and_final_answers(messages: Sequence[BaseMessage], kept: list[str]) -> None:
    said = Transcript()
    said.add(messages)
    assert [message.text for message in select_messages(said.messages.values(), said.steps)] == kept


def test_selects_the_same_messages_from_the_journal() -> None:
    logged = [
        {"id": "h", "type": "human", "content": "Look", "additional_kwargs": {}},
        {"id": "a", "type": "ai", "content": "I look.", "additional_kwargs": {}, "tool_calls": [LS]},
        {"id": "b", "type": "ai", "content": "Nothing.", "additional_kwargs": {}, "tool_calls": []},
    ]
    said = Transcript()
    said.add_logged({"messages": logged}, datetime.now(UTC))
    assert [message.text for message in select_messages(said.messages.values(), said.steps)] == ["Look", "Nothing."]


def test_shortens_long_messages_in_the_middle() -> None:
    said = Transcript()
    said.add([HumanMessage("begin" + "x" * 3 * MAX_MESSAGE_CHARS + "end", id="h")])
    (kept,) = select_messages(said.messages.values(), said.steps)
    assert len(kept.text) <= MAX_MESSAGE_CHARS and kept.text.startswith("begin") and kept.text.endswith("end")
