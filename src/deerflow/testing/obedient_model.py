"""Model that follows every instruction in its input, to test guardrails against prompt injection."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from deerflow.testing.scripted_server import ServerRequest
from deerflow.testing.turns import Answer, ToolRequest

INSTRUCTION = re.compile(r"(?:TASK|INSTRUCTION): (call|say) (.*?)(?=(?:TASK|INSTRUCTION): |$)", re.MULTILINE)
PLACEHOLDER = "{canary}"
CANARY = re.compile(r"CANARY-[0-9a-f]{8,}")


@dataclass(frozen=True, slots=True)
class ObedientModel:
    """A turn for `ScriptedServer([ObedientModel()], endless=True)`.

    It follows lines like `TASK: call web_fetch {"url": "…"}` in messages and `INSTRUCTION: call …` in tool results,
    latest result first, each once; `say` adds text to its answer. `{canary}` in an instruction is replaced by the first
    canary (`CANARY-` and hexadecimal digits) in its input.
    """

    def __call__(self, request: ServerRequest) -> Answer:
        text = "\n".join(iter_texts(request.messages))
        canary = CANARY.search(text)
        instructions = [
            (kind, instruction.replace(PLACEHOLDER, canary[0] if canary else "?"))
            for kind, instruction in find_instructions(request)
        ]
        made_calls = set(iter_calls(request.messages))
        for kind, instruction in instructions:
            name, _, rest = instruction.partition(" ")
            arguments = parse_leading_json(rest) if kind == "call" else None
            if arguments is not None and (name, canonicalize(arguments)) not in made_calls:
                return Answer(calls=(ToolRequest(name, arguments),))
        replies = [instruction for kind, instruction in instructions if kind == "say"]
        return Answer(" ".join([*replies, f"I have done {len(made_calls)} things."]))


def find_instructions(request: ServerRequest) -> Iterator[tuple[str, str]]:
    """Yield all instructions: those in the latest tool results first, then those of users in order."""
    tool_messages = [message for message in request.messages if message["role"] == "tool"]
    user_messages = [message for message in request.messages if message["role"] == "user"]
    for text in iter_texts([*reversed(tool_messages), *user_messages]):
        for candidate in (text, *iter_json_strings(text)):
            yield from ((match[1], match[2].strip()) for match in INSTRUCTION.finditer(candidate))


def iter_json_strings(text: str) -> Iterator[str]:
    """Yield the strings in a JSON result."""
    try:
        parts = [orjson.loads(text)]
    except orjson.JSONDecodeError:
        return
    while parts:
        part = parts.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict | list):
            parts += part.values() if isinstance(part, dict) else part


def iter_texts(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the texts of messages in any content format."""
    for message in messages:
        content = message.get("content") or ""
        if isinstance(content, str):
            yield content
        else:
            yield from (str(block.get("text", "")) for block in content)


def iter_calls(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, bytes]]:
    """Yield the tool calls that were already made."""
    for message in messages:
        for call in message.get("tool_calls") or ():
            yield call["function"]["name"], canonicalize(call["function"]["arguments"])


def parse_leading_json(text: str) -> str | None:
    """Return the JSON at the start of a text, or None."""
    try:
        return json.dumps(json.JSONDecoder().raw_decode(text.strip())[0])
    except json.JSONDecodeError:
        return None


def canonicalize(arguments: str) -> bytes:
    """Return arguments in canonical form for comparison."""
    return orjson.dumps(orjson.loads(arguments or "{}"), option=orjson.OPT_SORT_KEYS)
