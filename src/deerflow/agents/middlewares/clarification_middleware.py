"""Clarification: a question to the user ends the run; the answer starts the next one."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolCall, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from deerflow.agent_support.replies import (
    AsyncModelHandler,
    AsyncToolHandler,
    ModelHandler,
    Reply,
    Request,
    ToolHandler,
    find_ai_message,
    is_answered,
    replace_message,
    replace_tool_calls,
)
from deerflow.agent_support.thread_state import ThreadState
from deerflow.agents.middlewares.dangling_tool_call_middleware import answer_malformed_calls
from deerflow.domain.context import RunContext
from deerflow.tools.builtins import ClarificationType, ask_clarification_tool

NAME = ask_clarification_tool.name
TYPES: tuple[ClarificationType, ...] = get_args(ClarificationType)
MAX_OPTIONS = 24
UNANSWERED = "Nobody can answer now. Go on with the most sensible assumption, and say in your answer which it was."
NO_QUESTION = f"Error: {NAME} was not called: `question` is missing. Call it again with one clear question."


class ClarificationMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Turns a call of `ask_clarification` into a question for the user, or continues where no user can answer.

    A question is the only call of its reply: LangChain ends a run after tools only if no other tool was called.
    """

    def __init__(self, is_disabled: bool = False) -> None:
        super().__init__()
        self._is_disabled = is_disabled

    def wrap_model_call(self, request: Request, handler: ModelHandler) -> Reply:
        return self._settled(handler(request))

    async def awrap_model_call(self, request: Request, handler: AsyncModelHandler) -> Reply:
        return self._settled(await handler(request))

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: ToolHandler[ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        question = read_question(request.tool_call)
        return handler(request) if question is None else question.to_message()

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: AsyncToolHandler[ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        question = read_question(request.tool_call)
        return await handler(request) if question is None else question.to_message()

    def _settled(self, reply: Reply) -> Reply:
        """Return the reply with either only a question or no question."""
        reply = answer_malformed_calls(reply)
        message = find_ai_message(reply)
        calls = [call for call in message.tool_calls if call["name"] == NAME] if message else []
        asking = [call for call in calls if not is_answered(reply, call["id"])]
        if message is None or not asking:
            return reply
        answerable = [] if self._is_disabled else _each_once(asking)
        if answerable:
            return replace_message(reply, replace_tool_calls(message, answerable))
        # Answered here, the call is never made, and the model is asked again.
        text = UNANSWERED if self._is_disabled else NO_QUESTION
        status = "success" if self._is_disabled else "error"
        results = [ToolMessage(text, name=NAME, tool_call_id=call["id"], status=status) for call in asking]
        return replace_message(reply, message, *results)


@dataclass(frozen=True, slots=True)
class UserQuestion:
    """Question to the user."""

    call_id: str
    text: str
    type: ClarificationType
    context: str | None
    options: tuple[str, ...]

    def to_message(self) -> ToolMessage:
        """Return the question as text, with the form in the artifact."""
        numbered = "\n".join(f"{number}. {option}" for number, option in enumerate(self.options, 1))
        text = "\n\n".join(part for part in (self.context, self.text, numbered) if part)
        return ToolMessage(text, name=NAME, tool_call_id=self.call_id, artifact={"human_input": self.payload()})

    def payload(self) -> dict[str, object]:
        """Return the question as JSON for clients."""
        return {
            "version": 1,
            "kind": "human_input_request",
            "source": NAME,
            "request_id": f"clarification-{self.call_id}",
            "tool_call_id": self.call_id,
            "clarification_type": self.type,
            "question": self.text,
            "context": self.context,
            "input_mode": "choice_with_other" if self.options else "free_text",
            "options": [
                {"id": f"option-{number}", "label": option, "value": option}
                for number, option in enumerate(self.options, 1)
            ],
        }


def read_question(call: ToolCall) -> UserQuestion | None:
    """Return the question of a call, tolerant of malformed lists; None if there is none."""
    args = call["args"]
    text = str(args.get("question") or "").strip()
    if call["name"] != NAME or not text:
        return None
    type_ = next((known for known in TYPES if known == args.get("clarification_type")), TYPES[0])
    context = str(args.get("context") or "").strip() or None
    return UserQuestion(call["id"] or "", text, type_, context, read_options(args.get("options")))


def _each_once(calls: Sequence[ToolCall]) -> list[ToolCall]:
    """Return the question calls without duplicates."""
    first: dict[str, ToolCall] = {}
    for call in calls:
        if question := read_question(call):
            first.setdefault(question.text, call)
    return list(first.values())


def read_options(given: object) -> tuple[str, ...]:
    """Return the options without duplicates."""
    if isinstance(given, str):
        given = _parsed(given)
    labels = (_label(option) for option in given) if isinstance(given, list) else ()
    return tuple(dict.fromkeys(label for label in labels if label))[:MAX_OPTIONS]


def _parsed(text: str) -> object:
    """Parse a list that was written as text; several lines are a list too."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text.splitlines()


def _label(option: object) -> str:
    if isinstance(option, Mapping):
        option = option.get("label") or option.get("value") or option.get("text") or ""
    return str(option).strip()
