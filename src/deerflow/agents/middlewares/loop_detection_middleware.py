"""Ends a turn in which the model keeps asking for the same thing."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, AnyMessage, ToolCall

from deerflow.agents.middlewares.dangling_tool_call_middleware import answer_malformed_calls
from deerflow.agents.middlewares.replies import (
    AskModel,
    AskModelAsync,
    Reply,
    Request,
    ended_with,
    messages_of_this_turn,
    said_by_the_model,
    with_hidden_message,
    with_message,
)
from deerflow.agents.thread_state import ThreadState
from deerflow.config.loop_detection import LoopDetectionConfig
from deerflow.domain.context import RunContext
from deerflow.domain.subagents import LOOP_CAPPED

Wish: TypeAlias = tuple[str, ...]
"""What a reply asks for: its calls without ids, in no order."""

SALIENT = ("path", "url", "query", "command", "cmd", "pattern", "glob")
"""The arguments that say what a call is about; others, such as its description, vary for no reason."""
COMPARED_WHOLE = frozenset({"write_file", "str_replace"})
READING = "read_file"
LINES_PER_PLACE = 200
STOPPED = {"stop_reason": LOOP_CAPPED, "finish_reason": "stop"}


class LoopDetectionMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Warns a model that repeats itself, then ends the turn; looks at nothing but the messages of the turn."""

    def __init__(self, settings: LoopDetectionConfig) -> None:
        super().__init__()
        self._settings = settings
        self._warning = Path(__file__).with_suffix(".md").read_text(encoding="utf-8").strip()

    def wrap_model_call(self, request: Request, handler: AskModel) -> Reply:
        past = replies_of_this_turn(request.messages)
        return self._stopped(past, handler(self._warned(past, request)))

    async def awrap_model_call(self, request: Request, handler: AskModelAsync) -> Reply:
        past = replies_of_this_turn(request.messages)
        return self._stopped(past, await handler(self._warned(past, request)))

    def _warned(self, past: Sequence[AIMessage], request: Request) -> Request:
        """`request`, with a warning if the newest reply was one too many of its kind."""
        repeated = repetition(past, self._settings)
        if repeated is None:
            return request
        return with_hidden_message(request, self._warning.format(count=repeated.count, what=repeated.what))

    def _stopped(self, past: Sequence[AIMessage], reply: Reply) -> Reply:
        """`reply`, or an answer in its place that says why the turn ends."""
        reply = answer_malformed_calls(reply)  # those can go round in circles too
        message = said_by_the_model(reply)
        if message is None or not message.tool_calls:
            return reply
        repeated = repetition([message, *past], self._settings)
        if repeated is None or not repeated.is_over_limit:
            return reply
        stopped = f"I stopped here because I was going round in circles: {repeated.what}, {repeated.count} times."
        return with_message(reply, ended_with(message, stopped, STOPPED))


@dataclass(frozen=True, slots=True)
class Repetition:
    """Something asked for too often."""

    what: str
    count: int
    is_over_limit: bool


def replies_of_this_turn(messages: Sequence[AnyMessage]) -> list[AIMessage]:
    """The tool-calling replies since somebody last spoke, newest first."""
    turn = messages_of_this_turn(messages)
    return [message for message in turn if isinstance(message, AIMessage) and message.tool_calls]


def repetition(replies: Sequence[AIMessage], settings: LoopDetectionConfig) -> Repetition | None:
    """What the newest of `replies` asks for once too often; None when it does not."""
    if not replies:
        return None
    found = [*_equal_replies(replies, settings), *_frequent_tools(replies, settings)]
    return max(found, key=lambda each: each.is_over_limit, default=None)


def _equal_replies(replies: Sequence[AIMessage], settings: LoopDetectionConfig) -> Iterable[Repetition]:
    newest = wish(replies[0].tool_calls)
    count = sum(wish(reply.tool_calls) == newest for reply in islice(replies, settings.window_size))
    if count >= settings.warn_threshold:
        names = ", ".join(dict.fromkeys(call["name"] for call in replies[0].tool_calls))
        yield Repetition(f"{names} with the same arguments", count, count >= settings.hard_limit)


def _frequent_tools(replies: Sequence[AIMessage], settings: LoopDetectionConfig) -> Iterable[Repetition]:
    earlier = Counter(call["name"] for reply in replies[1:] for call in reply.tool_calls)
    for name, now in Counter(call["name"] for call in replies[0].tool_calls).items():
        allowed, count = settings.frequency_of(name), earlier[name] + now
        if count >= allowed.warn:
            # Many calls at once are no loop yet: nobody is stopped without a warning.
            was_warned = earlier[name] >= allowed.warn
            yield Repetition(f"{name} in one turn", count, was_warned and count >= allowed.hard_limit)


def wish(calls: Sequence[ToolCall]) -> Wish:
    """What `calls` are about, the same for calls in another order or with another description."""
    return tuple(sorted(f"{call['name']} {_subject(call['name'], call['args'])}" for call in calls))


def _subject(name: str, args: Mapping[str, Any]) -> str:
    salient = {key: args[key] for key in SALIENT if key in args}
    if name == READING and "path" in salient:
        # Reading on in a long file is progress.
        salient["place"] = _place(args.get("start_line"))
    subject = args if name in COMPARED_WHOLE or not salient else salient
    return json.dumps(subject, sort_keys=True, default=str)


def _place(line: object) -> int:
    return line // LINES_PER_PLACE if isinstance(line, int) else 0
