"""Notes whose words were read: with the message that brought them, with the thread, and with the run for subagents."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeAlias

from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from deerflow.agents.middlewares.guardrail_facts import SUBAGENTS, ToolFacts, brought, spoken
from deerflow.domain.context import run_in
from deerflow.domain.reading import ADDRESSES_MARK, UNTRUSTED_MARK, Reading, addresses_in
from deerflow.subagents.kinds import TASK, TASK_BATCH

Result: TypeAlias = ToolMessage | Command[Any]
Change: TypeAlias = Callable[[ToolMessage], ToolMessage]
DELEGATING = frozenset({TASK, TASK_BATCH})


def showing(request: ToolCallRequest) -> None:
    """Before work is given to subagents, have them know what was written and read so far."""
    run = run_in(request.runtime.context)
    if run is not None and request.tool_call["name"] in DELEGATING:
        messages = request.state.get("messages") or ()
        run.reading.wrote = tuple(spoken(messages))
        run.reading.heard = tuple(brought(messages))


def noting(request: ToolCallRequest, result: Result, kind: ToolFacts, is_subagent: bool) -> Result:
    """`result`, with whose words it brings, and with all whose words were read in the run."""
    run = run_in(request.runtime.context)
    reading = run.reading if run is not None else Reading()
    name = request.tool_call["name"]
    if kind.brings_untrusted:
        source = kind.voice or name
        reading.sources.add(source)
        result = changed(request, result, lambda message: marked(message, UNTRUSTED_MARK, source))
        if is_subagent:
            for message in messages_in(request, result):
                reading.note_addresses(message.text)
    elif name in DELEGATING:
        if reading.is_resumed:
            reading.sources.add(SUBAGENTS)
        result = changed(request, result, lambda message: with_addresses(message, reading))
    new = reading.sources - set(request.state.get("untrusted") or ())
    return with_update(result, untrusted=sorted(new)) if new else result


def with_addresses(message: ToolMessage, reading: Reading) -> ToolMessage:
    """A subagent's answer, with those of its addresses that it has really read."""
    read = sorted(set(addresses_in(message.text)) & reading.addresses)
    return marked(message, ADDRESSES_MARK, read) if read else message


def marked(message: ToolMessage, mark: str, value: object) -> ToolMessage:
    """The message with a mark that models do not see."""
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, mark: value}})


def changed(request: ToolCallRequest, result: Result, change: Change) -> Result:
    """`result` with its own message changed."""
    if isinstance(result, ToolMessage):
        return change(result)
    if not isinstance(result.update, dict):
        return result
    own = {id(message) for message in messages_in(request, result)}
    given = result.update.get("messages") or ()
    messages = [change(message) if id(message) in own else message for message in given]
    return replace(result, update={**result.update, "messages": messages}) if own else result


def messages_in(request: ToolCallRequest, result: Result) -> Iterable[ToolMessage]:
    """The messages that answer the call."""
    if isinstance(result, ToolMessage):
        return [result]
    given = result.update.get("messages") or () if isinstance(result.update, dict) else ()
    call_id = request.tool_call["id"]
    return [message for message in given if isinstance(message, ToolMessage) and message.tool_call_id == call_id]


def with_update(result: Result, **update: object) -> Result:
    """`result` that changes the state of the thread too."""
    if isinstance(result, ToolMessage):
        return Command(update={"messages": [result], **update})
    if isinstance(result.update, dict):
        return replace(result, update={**result.update, **update})
    return result
