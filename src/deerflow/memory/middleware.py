"""Injection of memory when a thread begins.

The ids of injected facts are stored on the reply that follows. Later requests repeat the injection at the same
position: new facts do not change it, so prompt caches hit; erased facts disappear from it. Extraction is scheduled at
the end of each run (`memory/queue.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from deerflow.agent_support.compaction import PINNED
from deerflow.agent_support.replies import (
    EARLIER_NOTES,
    HIDDEN,
    AsyncModelHandler,
    ModelHandler,
    Reply,
    Request,
    find_ai_message,
    is_user_message,
)
from deerflow.agent_support.thread_state import ThreadState
from deerflow.domain.context import RunContext, find_run_context
from deerflow.domain.errors import StorageUnavailable
from deerflow.domain.memory import MemoryInjection, RunMemory

INJECTION_KEY = "told_memory"
"""Key of the injection note in a reply's `additional_kwargs`."""


class MemoryMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Inserts memory before the first user message of a thread, or after a compaction before the next one."""

    state_schema = ThreadState

    def wrap_model_call(self, request: Request, handler: ModelHandler) -> Reply:
        return handler(request)  # only runs have a memory, and they are always async

    async def awrap_model_call(self, request: Request, handler: AsyncModelHandler) -> Reply:
        run = find_run_context(request.runtime.context) if request.runtime else None
        if run is None or run.memory is None:
            return await handler(request)
        reply_index = find_note(request.messages)
        injection = await find_injection(run.memory, request.messages, reply_index)
        if receipt := run.memory.take_receipt(injection):
            request.runtime.stream_writer(receipt.to_event())
        if not injection.text:
            return await handler(request)
        at = find_position(request.messages, len(request.messages) if reply_index is None else reply_index)
        messages = [*request.messages[:at], build_message(injection.text), *request.messages[at:]]
        reply = await handler(request.override(messages=messages))
        return add_note(injection.note, reply) if reply_index is None else reply


def build_message(text: str) -> HumanMessage:
    """Return a hidden message that stays in context when the messages around it are compacted."""
    return HumanMessage(text, additional_kwargs={HIDDEN: True, PINNED: True})


async def find_injection(memory: RunMemory, messages: Sequence[AnyMessage], reply_index: int | None) -> MemoryInjection:
    """Return the injection for a request; an empty one when memory is unavailable, so that the run can continue."""
    try:
        if reply_index is not None:
            return await memory.restore_injection(messages[reply_index].additional_kwargs[INJECTION_KEY])
        return (
            await memory.build_injection(read_new_messages(messages)) if is_beginning(messages) else MemoryInjection()
        )
    except StorageUnavailable:
        return MemoryInjection()


def find_note(messages: Sequence[AnyMessage]) -> int | None:
    """Return the index of the latest reply with an injection note, None when there is none."""
    notes = (at for at in reversed(range(len(messages))) if isinstance(read_note(messages[at]), Mapping))
    return next(notes, None)


def read_note(message: AnyMessage) -> object:
    """Return the injection note of a reply."""
    return message.additional_kwargs.get(INJECTION_KEY) if isinstance(message, AIMessage) else None


def is_beginning(messages: Sequence[AnyMessage]) -> bool:
    """Return whether there is no reply yet, or the injection was compacted away."""
    is_shortened = any(EARLIER_NOTES in message.additional_kwargs for message in messages)
    return is_shortened or not any(isinstance(message, AIMessage) for message in messages)


def read_new_messages(messages: Sequence[AnyMessage]) -> str:
    """Return the text of the user messages since the last reply."""
    return "\n".join(message.text for message in messages if is_user_message(message))[-2000:]


def find_position(messages: Sequence[AnyMessage], reply: int) -> int:
    """Return the index of the user message that a reply answers."""
    positions = (at for at in reversed(range(reply)) if is_user_message(messages[at]))
    return next(positions, reply)


def add_note(note: Mapping[str, Any], reply: Reply) -> Reply:
    """Return `reply` with the injection note added."""
    message = find_ai_message(reply)
    if message is None:
        return reply
    noted = message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, INJECTION_KEY: dict(note)}})
    return replace(reply, result=[noted if each is message else each for each in reply.result])
