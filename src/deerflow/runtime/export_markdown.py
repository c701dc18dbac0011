"""A thread as Markdown: what was said in the open, what tools did folded away."""

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import orjson

from deerflow.agents.middlewares.replies import HIDDEN
from deerflow.domain.files import FileEntry
from deerflow.domain.threads import ThreadRecord
from deerflow.runtime.said import text_in

Message = Mapping[str, Any]
TICKS = re.compile("`+")


def markdown(thread: ThreadRecord, messages: Sequence[Message], files: Sequence[FileEntry]) -> Iterator[bytes]:
    """The thread, piece by piece."""
    yield f"# {one_line(thread.title or thread.thread_id)}\n\n".encode()
    yield f"Thread `{thread.thread_id}`, begun {thread.created_at:%Y-%m-%d %H:%M} UTC.\n".encode()
    results = {message["tool_call_id"]: message for message in messages if message["type"] == "tool"}
    for message in messages:
        if not message["additional_kwargs"].get(HIDDEN):
            yield "".join(paragraphs(message, results)).encode("utf-8", "replace")
    if files:
        yield b"\n## Files\n\n"
        yield "".join(f"- `{one_line(file.path)}`, {size(file.size)}\n" for file in files).encode("utf-8", "replace")


def paragraphs(message: Message, results: Mapping[str, Message]) -> Iterator[str]:
    """What one message says; results of tools stand with the calls they answer."""
    if message["type"] == "human":
        yield f"\n## You\n\n{shown(message)}\n"
        yield from (f"\nAttached: `{one_line(str(file.get('filename')))}`\n" for file in attached(message))
    elif message["type"] == "ai":
        yield from answer(message, results)


def answer(message: Message, results: Mapping[str, Message]) -> Iterator[str]:
    """What the agent says, thinks and has done."""
    thought = message["additional_kwargs"].get("reasoning_content")
    calls = message.get("tool_calls") or ()
    if not (thought or calls or shown(message)):
        return
    yield "\n## DeerFlow\n"
    if thought:
        yield folded("Thought", str(thought))
    if shown(message):
        yield f"\n{shown(message)}\n"
    for call in calls:
        result = results.get(call["id"])
        arguments = orjson.dumps(call["args"], option=orjson.OPT_INDENT_2).decode()
        came = "" if result is None else f"\n\n{fenced(shown(result), '')}"
        failed = " (failed)" if result is not None and result.get("status") == "error" else ""
        yield folded(f"{call['name']}{failed}", f"{fenced(arguments, 'json')}{came}")


def shown(message: Message) -> str:
    """The text of a message; what is no text is named."""
    content = message["content"]
    if isinstance(content, str):
        return content.strip()
    others = (block["type"] for block in content if isinstance(block, Mapping) and "text" not in block)
    marks = "".join(f"\n\n[{one_line(str(kind))}]" for kind in others)
    return f"{text_in(content)}{marks}".strip()


def attached(message: Message) -> Sequence[Mapping[str, Any]]:
    """The files that came with a message."""
    files = message["additional_kwargs"].get("files")
    return [file for file in files if isinstance(file, Mapping)] if isinstance(files, list) else []


def folded(summary: str, text: str) -> str:
    """Something for those who want to know."""
    return f"\n<details><summary>{escape(one_line(summary))}</summary>\n\n{text}\n\n</details>\n"


def fenced(text: str, language: str) -> str:
    """Text as it is, in a fence that it cannot leave."""
    longest = max((len(ticks) for ticks in TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def one_line(text: str) -> str:
    """Text without line breaks and ticks."""
    return " ".join(text.replace("`", "'").split())


def size(count: int) -> str:
    """A number of bytes for people."""
    return f"{count} bytes" if count < 1024 else f"{count / 1024:.1f} KB"
