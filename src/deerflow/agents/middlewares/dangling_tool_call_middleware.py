"""Repair of dangling tool calls: every call has exactly one result directly after it."""

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.messages.tool import ToolCall, tool_call

from deerflow.agent_support.replies import (
    TRUNCATED,
    AsyncModelHandler,
    ModelHandler,
    Reply,
    Request,
    find_ai_message,
    get_finish_reason,
    is_answered,
    replace_message,
    replace_tool_calls,
)
from deerflow.agent_support.thread_state import ThreadState
from deerflow.domain.context import RunContext

UNKNOWN_TOOL = "unknown_tool"
EXCERPT_CHARS = 40
LENGTH_LIMIT = (
    "your reply reached its length limit before the arguments were complete. "
    "Send less at once, for example a long file in several parts."
)


class DanglingToolCallMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Repairs what an interrupt, a crash or a careless model left behind.

    The history is repaired in the request alone. A malformed call of a new reply is answered at once, so that the model
    corrects itself within the run; LangChain would end the run there and later rewrite the whole state.
    """

    def wrap_model_call(self, request: Request, handler: ModelHandler) -> Reply:
        return answer_malformed_calls(handler(settle_request(request)))

    async def awrap_model_call(self, request: Request, handler: AsyncModelHandler) -> Reply:
        return answer_malformed_calls(await handler(settle_request(request)))


def settle_request(request: Request) -> Request:
    """Return `request` with a result for each call; the same object if nothing is missing."""
    if is_complete(request.messages):
        return request
    return request.override(messages=complete_messages(request.messages))


def answer_malformed_calls(reply: Reply) -> Reply:
    """Return `reply` with valid calls, or with answers that explain what is wrong. Idempotent."""
    message = find_ai_message(reply)
    if message is None or (has_valid_calls(message) and not is_truncated(message)):
        return reply
    asked = repair_message(message)
    broken = [slot for slot in asked.slots if slot.problem and not is_answered(reply, slot.call["id"])]
    return replace_message(reply, asked.message, *(slot.problem_message() for slot in broken))


def is_complete(messages: Sequence[AnyMessage]) -> bool:
    """Return whether the messages can be sent to a model as they are."""
    unanswered: set[str | None] = set()
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in unanswered:
                return False
            unanswered.remove(message.tool_call_id)
        elif unanswered:
            return False
        elif isinstance(message, AIMessage) and (message.tool_calls or message.invalid_tool_calls):
            if not has_valid_calls(message):
                return False
            unanswered = {call["id"] for call in message.tool_calls}
    return not unanswered


def complete_messages(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the conversation with every result directly after its call, and a note where there is none."""
    settled: list[AnyMessage | CallingMessage] = []
    waiting: dict[str, deque[CallSlot]] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            if slots := waiting.get(message.tool_call_id):
                slots.popleft().result = message
        elif isinstance(message, AIMessage) and (message.tool_calls or message.invalid_tool_calls):
            asked = repair_message(message)
            settled.append(asked)
            waiting.update(asked.waiting())
        else:
            settled.append(message)
    return [part for item in settled for part in (item.messages() if isinstance(item, CallingMessage) else (item,))]


def has_valid_calls(message: AIMessage) -> bool:
    """Return whether all calls of a message have a name, arguments and a unique id."""
    calls = message.tool_calls
    if message.invalid_tool_calls:
        return False
    return len({call["id"] for call in calls}) == len(calls) and all(map(is_valid_call, calls))


def is_valid_call(call: ToolCall) -> bool:
    """Return whether a call can be executed and answered."""
    return bool(call["id"] and call["name"]) and isinstance(call["args"], dict)


def is_truncated(message: AIMessage) -> bool:
    """Return whether the last call may be incomplete: LangChain closes open brackets on its own."""
    return bool(message.tool_calls) and get_finish_reason(message) in TRUNCATED


@dataclass(slots=True)
class CallSlot:
    """Call with a slot for its result."""

    call: ToolCall
    given_id: str  # as the model wrote it, which may be empty or taken
    problem: str | None = None
    result: ToolMessage | None = None

    def message(self) -> ToolMessage:
        """Result, or a note in its place."""
        if self.result is None:
            return self.problem_message() if self.problem else self._interrupted()
        if self.result.tool_call_id == self.call["id"]:
            return self.result
        return self.result.model_copy(update={"tool_call_id": self.call["id"]})

    def problem_message(self) -> ToolMessage:
        """Answer to a call that cannot be executed."""
        return self._error(f"Error: {self.call['name']} was not called: {self.problem}")

    def _interrupted(self) -> ToolMessage:
        name = self.call["name"]
        unknown = f"Error: the run was interrupted before {name} gave a result, so it may or may not have taken effect."
        return self._error(f"{unknown} Check that first if it matters, and call it again if it is still needed.")

    def _error(self, text: str) -> ToolMessage:
        return ToolMessage(text, name=self.call["name"], tool_call_id=self.call["id"], status="error")


@dataclass(slots=True)
class CallingMessage:
    """Message with valid calls and slots for their results."""

    message: AIMessage
    slots: list[CallSlot] = field(default_factory=list)

    def waiting(self) -> dict[str, deque[CallSlot]]:
        """Slots by the ids that results may refer to."""
        waiting: dict[str, deque[CallSlot]] = {}
        for slot in self.slots:
            waiting.setdefault(slot.given_id, deque()).append(slot)
        return waiting

    def messages(self) -> list[AnyMessage]:
        return [self.message, *(slot.message() for slot in self.slots)]


def repair_message(message: AIMessage) -> CallingMessage:
    """Return `message` with calls that every provider accepts."""
    taken: set[str] = set()
    slots: list[CallSlot] = []
    calls = (*message.tool_calls, *message.invalid_tool_calls)
    for index, call in enumerate(calls):
        name, args, given_id = call["name"], call["args"], call["id"] or ""
        # Made from what stays the same, so that the next request begins with the same words.
        id_ = given_id or f"{message.id or 'call'}_{index}"
        while id_ in taken:
            id_ = f"{id_}_{index}"
        taken.add(id_)
        was_cut = get_finish_reason(message) in TRUNCATED and call is calls[-1]
        problem = LENGTH_LIMIT if was_cut else _problem(name, args)
        sound = tool_call(name=name or UNKNOWN_TOOL, args=args if isinstance(args, dict) else {}, id=id_)
        slots.append(CallSlot(sound, given_id, problem))
    if has_valid_calls(message):
        return CallingMessage(message, slots)
    return CallingMessage(replace_tool_calls(message, [slot.call for slot in slots]), slots)


def _problem(name: str | None, args: dict[str, Any] | str | None) -> str | None:
    """Return why a call cannot be executed and what to do instead; None if it can."""
    if isinstance(args, dict):
        return None if name else "it has no name. Say which tool you mean."
    return f"{_what_is_wrong(args)} Call it again with one complete JSON object."


def _what_is_wrong(text: str | None) -> str:
    if not text:
        return "its arguments are missing."
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError as error:
        near = text[max(0, error.pos - EXCERPT_CHARS) : error.pos + EXCERPT_CHARS]
        return f"its arguments are not valid JSON: {error.msg} at character {error.pos}, near {near!r}."
    except ValueError:
        return "its arguments contain a number with too many digits."
    except RecursionError:
        return "its arguments are nested too deeply."
    return f"its arguments must be a JSON object, not {type(parsed).__name__}."
