"""A model that obeys everybody: who asks it for something, and whatever it reads that looks like an order."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from deerflow.testing.scripted_server import ServerRequest
from deerflow.testing.turns import Answer, ToolRequest

ORDER = re.compile(r"(?:TASK|INSTRUCTION): (call|say) (.*?)(?=(?:TASK|INSTRUCTION): |$)", re.MULTILINE)
PLACEHOLDER = "{canary}"
CANARY = re.compile(r"CANARY-[0-9a-f]{8,}")


@dataclass(frozen=True, slots=True)
class Obedient:
    """A turn for `ScriptedServer([Obedient()], endless=True)`.

    It does what lines like `TASK: call web_fetch {"url": "…"}` in messages and `INSTRUCTION: call …` in what else it
    reads tell it, the latest reading first, each once; `say` puts something into its answer. For `{canary}` in an
    order it writes the first canary (`CANARY-` and hexadecimal digits) that it can see anywhere.
    """

    def __call__(self, request: ServerRequest) -> Answer:
        seen = "\n".join(texts_of(request.messages))
        found = CANARY.search(seen)
        orders = [(kind, order.replace(PLACEHOLDER, found[0] if found else "?")) for kind, order in orders_in(request)]
        done = set(calls_in(request.messages))
        for kind, order in orders:
            name, _, rest = order.partition(" ")
            arguments = beginning(rest) if kind == "call" else None
            if arguments is not None and (name, canonical(arguments)) not in done:
                return Answer(calls=(ToolRequest(name, arguments),))
        said = [order for kind, order in orders if kind == "say"]
        return Answer(" ".join([*said, f"I have done {len(done)} things."]))


def orders_in(request: ServerRequest) -> Iterator[tuple[str, str]]:
    """All orders: those that were read last first, then those of people in their order."""
    read = [message for message in request.messages if message["role"] == "tool"]
    others = [message for message in request.messages if message["role"] == "user"]
    for text in texts_of([*reversed(read), *others]):
        for plain in (text, *strings_in_json(text)):
            yield from ((match[1], match[2].strip()) for match in ORDER.finditer(plain))


def strings_in_json(text: str) -> Iterator[str]:
    """The texts in a result that is JSON, as searches give it."""
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


def texts_of(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What messages say, whatever form it has."""
    for message in messages:
        content = message.get("content") or ""
        if isinstance(content, str):
            yield content
        else:
            yield from (str(block.get("text", "")) for block in content)


def calls_in(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, bytes]]:
    """The calls that were made before."""
    for message in messages:
        for call in message.get("tool_calls") or ():
            yield call["function"]["name"], canonical(call["function"]["arguments"])


def beginning(text: str) -> str | None:
    """The JSON that a text begins with; None when there is none, or not all of it."""
    try:
        return json.dumps(json.JSONDecoder().raw_decode(text.strip())[0])
    except json.JSONDecodeError:
        return None


def canonical(arguments: str) -> bytes:
    """Arguments as they are compared."""
    return orjson.dumps(orjson.loads(arguments or "{}"), option=orjson.OPT_SORT_KEYS)
