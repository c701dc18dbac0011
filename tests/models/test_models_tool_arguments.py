"""Completion of streamed tool arguments: the same results as LangChain's own parser, in linear time."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from functools import reduce
from operator import add
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.utils.json import parse_partial_json

from deerflow.models.openai_compatible import tool_calls
from deerflow.models.openai_compatible.tool_calls import (
    MAX_COMPLETED,
    join_argument_chunks,
    parse_partial_arguments,
    use_linear_parser,
)

TEXT = st.text(alphabet='ab"\\\n{}[]:, é', max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
MUTATIONS = st.lists(st.tuples(st.integers(0, 200), st.sampled_from('{}[]",:\\ \n1ate-.')), max_size=3)


def result(parse: Any, text: str) -> dict[str, Any] | None:
    """Return the object that LangChain would use, None if it would call the arguments invalid."""
    try:
        found = parse(text)
    except Exception:  # noqa: BLE001  # as LangChain does
        return None
    return found if isinstance(found, dict) else None


@given(st.dictionaries(TEXT, VALUES, max_size=3), st.integers(0, 200), MUTATIONS, st.sampled_from([None, 1]))
def test_equals_the_parser_of_langchain(
    value: dict[str, Any], cut: int, mutations: list[tuple[int, str]], indent: int | None
) -> None:
    text = json.dumps(value, indent=indent)[:cut]
    for position, character in mutations:
        text = text[:position] + character + text[position + 1 :]
    assert result(parse_partial_arguments, text) == result(parse_partial_json, text)


@given(st.text(alphabet='{}[]",:\\ \n1a', max_size=12))
def test_equals_the_parser_of_langchain_for_arbitrary_text(text: str) -> None:
    assert result(parse_partial_arguments, text) == result(parse_partial_json, text)


CODE = json.dumps({"path": "/a", "content": 'def f(x):\n    return "é"\n' * 30_000})


@pytest.mark.parametrize(
    "piece",
    [
        CODE[:60_000],
        CODE[50:300_000],
        CODE[:300_000],
        '{"a":1,' + " " * MAX_COMPLETED,
        '{"a":[1,2],' + "b:{" * (MAX_COMPLETED // 4),
        "{" + '"' * (MAX_COMPLETED - 1),
        '{"a":' + "[]" * (MAX_COMPLETED // 3),
    ],
    ids=["beginning", "middle", "long beginning", "spaces", "braces", "quotes", "brackets"],
)
@pytest.mark.timeout(30)  # LangChain's own parser takes minutes
def test_large_chunks_are_parsed_in_linear_time(piece: str) -> None:
    use_linear_parser()
    chunk = AIMessageChunk(content="", tool_call_chunks=[tool_call_chunk(name="f", args=piece, id="1", index=0)])
    assert len(chunk.tool_calls) + len(chunk.invalid_tool_calls) == 1


def test_long_text_is_not_completed() -> None:
    assert result(parse_partial_arguments, CODE[: MAX_COMPLETED + 1]) is None
    assert result(parse_partial_arguments, CODE) == json.loads(CODE)


def build_chunk(args: str | None, index: int = 0, **fields: Any) -> ChatGenerationChunk:
    calls = [] if args is None else [tool_call_chunk(args=args, index=index, name=fields.pop("name", None))]
    return ChatGenerationChunk(
        message=AIMessageChunk(content=fields.pop("content", ""), tool_call_chunks=calls, **fields)
    )


async def replay(chunks: Sequence[ChatGenerationChunk]) -> AsyncIterator[ChatGenerationChunk]:
    for chunk in chunks:
        await asyncio.sleep(0)  # as a connection does
        yield chunk


async def collect(chunks: AsyncIterator[ChatGenerationChunk]) -> list[ChatGenerationChunk]:
    return [chunk async for chunk in chunks]


def test_joined_pieces_of_arguments_add_up_to_the_same_reply() -> None:
    pieces = [json.dumps({"content": "a" * 50_000})[start : start + 100] for start in range(0, 50_016, 100)]
    chunks = [
        build_chunk(None, content="I write it."),
        build_chunk("", name="write_file"),
        *(build_chunk(piece) for piece in pieces),
        build_chunk("", 1, name="bash"),
        build_chunk('{"a":', 1),
        build_chunk("1}", 1),
        build_chunk(None, usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}),
    ]
    joined = asyncio.run(collect(join_argument_chunks(replay(chunks))))
    whole, expected = (reduce(add, (chunk.message for chunk in each)) for each in (joined, chunks))
    assert whole == expected and len(joined) < 20 < 500 < len(chunks)


async def test_pieces_that_arrive_slowly_are_passed_on_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_calls, "JOIN_S", 0)
    chunks = [build_chunk("", name="write_file"), build_chunk('{"a":'), build_chunk("1"), build_chunk("}")]
    assert [chunk async for chunk in join_argument_chunks(replay(chunks))] == chunks
