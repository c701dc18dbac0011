"""Loop detection: ends a turn in which the model repeats the same calls."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, AnyMessage, ToolCall

from deerflow.agent_support.replies import (
    AsyncModelHandler,
    ModelHandler,
    Reply,
    Request,
    append_hidden_message,
    end_with_sentence,
    find_ai_message,
    iter_current_turn,
    replace_message,
)
from deerflow.agent_support.thread_state import ThreadState
from deerflow.agents.middlewares.dangling_tool_call_middleware import answer_malformed_calls
from deerflow.config.sections.runs import LoopDetectionConfig
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
    """Warns a model that repeats itself, then ends the turn. Only looks at messages of the turn."""

    def __init__(self, settings: LoopDetectionConfig) -> None:
        super().__init__()
        self._settings = settings
        self._warning = Path(__file__).with_suffix(".md").read_text(encoding="utf-8").strip()

    def wrap_model_call(self, request: Request, handler: ModelHandler) -> Reply:
        past = turn_replies(request.messages)
        return self._stopped(past, handler(self._warned(past, request)))

    async def awrap_model_call(self, request: Request, handler: AsyncModelHandler) -> Reply:
        past = turn_replies(request.messages)
        return self._stopped(past, await handler(self._warned(past, request)))

    def _warned(self, past: Sequence[AIMessage], request: Request) -> Request:
        """Return `request`, with a warning if the newest reply repeats too often."""
        repeated = find_repetition(past, self._settings)
        if repeated is None:
            return request
        return append_hidden_message(request, self._warning.format(count=repeated.count, what=repeated.what))

    def _stopped(self, past: Sequence[AIMessage], reply: Reply) -> Reply:
        """Return `reply`, or a final answer that explains why the turn ends."""
        reply = answer_malformed_calls(reply)  # those can go round in circles too
        message = find_ai_message(reply)
        if message is None or not message.tool_calls:
            return reply
        repeated = find_repetition([message, *past], self._settings)
        if repeated is None or not repeated.is_over_limit:
            return reply
        stopped = f"I stopped here because I was going round in circles: {repeated.what}, {repeated.count} times."
        return replace_message(reply, end_with_sentence(message, stopped, STOPPED))


@dataclass(frozen=True, slots=True)
class Repetition:
    """Call that was repeated too often."""

    what: str
    count: int
    is_over_limit: bool


def turn_replies(messages: Sequence[AnyMessage]) -> list[AIMessage]:
    """Return the tool-calling replies since the last user message, newest first."""
    turn = iter_current_turn(messages)
    return [message for message in turn if isinstance(message, AIMessage) and message.tool_calls]


def find_repetition(replies: Sequence[AIMessage], settings: LoopDetectionConfig) -> Repetition | None:
    """Return the repetition in the newest of `replies`, if any."""
    if not replies:
        return None
    found = [*_equal_replies(replies, settings), *_frequent_tools(replies, settings)]
    return max(found, key=lambda each: each.is_over_limit, default=None)


def _equal_replies(replies: Sequence[AIMessage], settings: LoopDetectionConfig) -> Iterable[Repetition]:
    names = name_calls(replies[0])
    similar = [reply for reply in islice(replies, settings.window_size) if name_calls(reply) == names]
    if len(similar) < settings.warn_threshold:
        return
    newest, *earlier = (normalize_calls(reply.tool_calls) for reply in similar)
    count = 1 + earlier.count(newest)
    if count >= settings.warn_threshold:
        yield Repetition(
            f"{', '.join(dict.fromkeys(names))} with the same arguments", count, count >= settings.hard_limit
        )


def _frequent_tools(replies: Sequence[AIMessage], settings: LoopDetectionConfig) -> Iterable[Repetition]:
    earlier = Counter(call["name"] for reply in replies[1:] for call in reply.tool_calls)
    for name, now in Counter(call["name"] for call in replies[0].tool_calls).items():
        allowed, count = settings.get_frequency(name), earlier[name] + now
        if count >= allowed.warn:
            # Many calls at once are no loop yet: a run is not stopped without a warning.
            was_warned = earlier[name] >= allowed.warn
            yield Repetition(f"{name} in one turn", count, was_warned and count >= allowed.hard_limit)


def name_calls(reply: AIMessage) -> list[str]:
    """Return the sorted names of the tools that a reply calls."""
    return sorted(call["name"] for call in reply.tool_calls)


def normalize_calls(calls: Sequence[ToolCall]) -> Wish:
    """Return a key for `calls` that ignores their order and descriptions."""
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
