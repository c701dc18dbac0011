"""Cautious token estimates that need no tokenizer."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

BYTES_PER_TOKEN = 3
"""English takes 4 and more, code about 3, Chinese 3 to 4."""
MESSAGE_TOKENS = 8
"""Role and separators."""
IMAGE_TOKENS = 2000
CLIPPED = "clipped"
"""Key of messages that are sent without a part of their text."""
CUT_MARK = "\n[… {} characters left out …]\n"


def count_text_tokens(text: str) -> int:
    """Return the estimated tokens of `text`."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return -(-size // BYTES_PER_TOKEN)


def count_message_tokens(message: BaseMessage) -> int:
    """Return the estimated tokens of `message`."""
    content = message.content
    tokens = MESSAGE_TOKENS + (count_text_tokens(content) if isinstance(content, str) else _count_block_tokens(content))
    if reasoning := message.additional_kwargs.get("reasoning_content"):
        tokens += count_text_tokens(str(reasoning))
    if isinstance(message, AIMessage):
        for call in (*message.tool_calls, *message.invalid_tool_calls):
            tokens += MESSAGE_TOKENS + _count_json_tokens(call["args"])
    return tokens


def count_tokens(messages: Iterable[BaseMessage]) -> int:
    """Return the estimated tokens of all `messages`."""
    return sum(map(count_message_tokens, messages))


def count_tool_tokens(tools: "Sequence[BaseTool | dict[str, Any]]") -> int:
    """Return the estimated tokens of the schemas of `tools`."""
    return sum(_count_json_tokens(convert_to_openai_tool(tool)) for tool in tools)


def clip_message(message: AnyMessage, limit: int) -> AnyMessage:
    """Return `message` with the middle of its longest texts left out, so that it takes about `limit` tokens."""
    if count_message_tokens(message) <= limit:
        return message
    room = max(0, limit - MESSAGE_TOKENS)
    if not isinstance(message, AIMessage) or not (message.tool_calls or message.invalid_tool_calls):
        return message.model_copy(update={"content": _clip_content(message.content, room), **_mark_clipped(message)})
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    share = max(0, room // (len(calls) + 1) - MESSAGE_TOKENS)
    update = {
        "content": _clip_content(message.content, share),
        "tool_calls": [{**call, "args": _clip_values(call["args"], share)} for call in message.tool_calls],
        "invalid_tool_calls": [
            {**call, "args": clip_text(call["args"] or "", share)} for call in message.invalid_tool_calls
        ],
    }
    return message.model_copy(update={**update, **_mark_clipped(message)})


def clip_text(text: str, limit: int) -> str:
    """Return `text`, or both its ends when it takes more than `limit` tokens."""
    size = count_text_tokens(text)
    if size <= limit:
        return text
    mark = CUT_MARK.format(len(text))
    room = max(0, limit - count_text_tokens(mark)) * len(text) // size
    head, tail = room - room // 2, room // 2
    return f"{text[:head]}{CUT_MARK.format(len(text) - room)}{text[len(text) - tail :]}"


def _mark_clipped(message: AnyMessage) -> dict[str, Any]:
    """Return the marks of a clipped message, without its reasoning."""
    kept = {key: value for key, value in message.additional_kwargs.items() if key != "reasoning_content"}
    return {"additional_kwargs": {**kept, CLIPPED: True}}


def _clip_content(content: str | list[str | dict[str, Any]], limit: int) -> str | list[str | dict[str, Any]]:
    if isinstance(content, str):
        return clip_text(content, limit)
    share = limit // max(1, len(content))
    return [_clip_block(block, share) for block in content]


def _clip_block(block: str | dict[str, Any], limit: int) -> str | dict[str, Any]:
    if isinstance(block, str):
        return clip_text(block, limit)
    if isinstance(block.get("text"), str):
        return {**block, "text": clip_text(block["text"], limit)}
    return (
        block if _count_block_tokens([block]) <= limit else {"type": "text", "text": f"[{block.get('type')} left out]"}
    )


def _clip_values(values: Mapping[str, Any], limit: int) -> dict[str, Any]:
    share = limit // max(1, len(values))
    return {key: clip_text(value, share) if isinstance(value, str) else value for key, value in values.items()}


def _count_block_tokens(blocks: Sequence[str | dict[str, Any]]) -> int:
    return sum(count_text_tokens(block) if isinstance(block, str) else _count_part_tokens(block) for block in blocks)


def _count_part_tokens(part: Mapping[str, Any]) -> int:
    if isinstance(part.get("text"), str):
        return count_text_tokens(part["text"])
    return IMAGE_TOKENS if "image" in str(part.get("type")) else _count_json_tokens(part)


def _count_json_tokens(value: object) -> int:
    if isinstance(value, str):
        return count_text_tokens(value)
    return -(-len(orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)) // BYTES_PER_TOKEN)
