"""Pieces of a message: joined while they wait, never mixed, nothing lost."""

import orjson
from hypothesis import given
from hypothesis import strategies as some
from langchain_core.messages import AIMessageChunk, ToolMessage
from langchain_core.messages.tool import tool_call_chunk

from deerflow.runtime.journal.serialization import ChunkBuffer

TEXT = some.builds(lambda text: AIMessageChunk(text, id="m"), some.text())
THOUGHT = some.builds(
    lambda text: AIMessageChunk("", id="m", additional_kwargs={"reasoning_content": text}), some.text()
)


def merge_chunks(messages: list[AIMessageChunk]) -> list[dict[str, object]]:
    pieces: list[ChunkBuffer] = []
    for message in messages:
        if not pieces or not pieces[-1].take(message):
            pieces.append(ChunkBuffer(message, {}))
    return [orjson.loads(piece.to_json())[0] for piece in pieces]


@given(some.lists(TEXT | THOUGHT, min_size=1))
def test_merging_chunks_keeps_text_and_reasoning_separate(messages: list[AIMessageChunk]) -> None:
    fields = merge_chunks(messages)
    assert "".join(str(each["content"]) for each in fields) == "".join(str(message.content) for message in messages)
    thoughts = [each["additional_kwargs"].get("reasoning_content", "") for each in fields]  # type: ignore[attr-defined]
    assert "".join(thoughts) == "".join(message.additional_kwargs.get("reasoning_content", "") for message in messages)


def test_chunks_of_one_message_are_merged_into_one_event() -> None:
    assert [each["content"] for each in merge_chunks([AIMessageChunk(word, id="m") for word in "abc"])] == ["abc"]


def test_chunks_with_more_than_text_are_not_merged() -> None:
    call = AIMessageChunk("", id="m", tool_call_chunks=[tool_call_chunk(name="ls", args="{}", id="1", index=0)])
    last = AIMessageChunk("", id="m", response_metadata={"finish_reason": "stop"})
    other = AIMessageChunk("b", id="n")
    assert len(merge_chunks([AIMessageChunk("a", id="m"), call, call, last, other])) == 5
    assert not ChunkBuffer(ToolMessage("done", tool_call_id="1"), {}).take(AIMessageChunk("a", id=None))
