"""Taint tracking: records untrusted sources in tool messages, in the thread state, and in the run for subagents."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeAlias

from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from deerflow.agent_support.thread_state import iterate_sources
from deerflow.domain.context import find_run_context
from deerflow.domain.subagents import TASK, TASK_BATCH
from deerflow.domain.taint import (
    READ_URLS_MARK,
    UNTRUSTED_MARK,
    TaintTracker,
    extract_urls,
)
from deerflow.guardrails.call_context import SUBAGENTS, ToolTraits, untrusted_texts, user_texts

ToolCallResult: TypeAlias = ToolMessage | Command[Any]
MessageChange: TypeAlias = Callable[[ToolMessage], ToolMessage]
DELEGATING_TOOLS = frozenset({TASK, TASK_BATCH})


def share_with_subagents(request: ToolCallRequest) -> None:
    """Copy the user texts and untrusted texts of the thread to the run before a call that starts subagents."""
    run = find_run_context(request.runtime.context)
    if run is not None and request.tool_call["name"] in DELEGATING_TOOLS:
        messages = request.state.get("messages") or ()
        run.taint.user_texts = tuple(user_texts(messages))
        run.taint.untrusted_texts = tuple(untrusted_texts(messages))


def record_taint(
    request: ToolCallRequest, result: ToolCallResult, traits: ToolTraits, is_subagent: bool
) -> ToolCallResult:
    """Return `result` with its untrusted source marked, and with the sources of the run added to the thread state."""
    run = find_run_context(request.runtime.context)
    tracker = run.taint if run is not None else TaintTracker()
    name = request.tool_call["name"]
    if traits.brings_untrusted:
        source = traits.taint_source or name
        tracker.sources.add(source)
        result = map_own_message(request, result, lambda message: add_mark(message, UNTRUSTED_MARK, source))
        if is_subagent:
            for message in find_own_messages(request, result):
                tracker.add_urls(message.text)
    elif name in DELEGATING_TOOLS:
        if tracker.is_resumed:
            tracker.sources.add(SUBAGENTS)
        result = map_own_message(request, result, lambda message: mark_urls(message, tracker))
    new = tracker.sources - set(iterate_sources(request.state.get("untrusted")))
    return add_state_update(result, untrusted=sorted(new)) if new else result


def mark_urls(message: ToolMessage, tracker: TaintTracker) -> ToolMessage:
    """Return a subagent's answer marked with those of its URLs that the subagent has really read."""
    read = sorted(set(extract_urls(message.text)) & tracker.urls)
    return add_mark(message, READ_URLS_MARK, read) if read else message


def add_mark(message: ToolMessage, mark: str, value: object) -> ToolMessage:
    """Return the message with an additional key that models do not see."""
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, mark: value}})


def map_own_message(request: ToolCallRequest, result: ToolCallResult, change: MessageChange) -> ToolCallResult:
    """Return `result` with `change` applied to the message that answers the call."""
    if isinstance(result, ToolMessage):
        return change(result)
    if not isinstance(result.update, dict):
        return result
    own = {id(message) for message in find_own_messages(request, result)}
    given = result.update.get("messages") or ()
    messages = [change(message) if id(message) in own else message for message in given]
    return replace(result, update={**result.update, "messages": messages}) if own else result


def find_own_messages(request: ToolCallRequest, result: ToolCallResult) -> Iterable[ToolMessage]:
    """Return the messages that answer the call."""
    if isinstance(result, ToolMessage):
        return [result]
    given = result.update.get("messages") or () if isinstance(result.update, dict) else ()
    call_id = request.tool_call["id"]
    return [message for message in given if isinstance(message, ToolMessage) and message.tool_call_id == call_id]


def add_state_update(result: ToolCallResult, **update: object) -> ToolCallResult:
    """Return `result` with an additional update of the thread state."""
    if isinstance(result, ToolMessage):
        return Command(update={"messages": [result], **update})
    if isinstance(result.update, dict):
        return replace(result, update={**result.update, **update})
    return result
