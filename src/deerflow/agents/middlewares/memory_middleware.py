"""Tells the model, when a thread begins, what is remembered of the person it works for.

What was told is noted on the reply that follows, by names alone, and stands at the same place in every later request:
what is learned meanwhile does not change it, so providers' caches hit; what the person erases is gone from it.
What is to be learned from the thread is kept with the end of each run (`memory/queue.py`), after the answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from deerflow.agents.middlewares.compaction import PINNED
from deerflow.agents.middlewares.replies import (
    HIDDEN,
    NOTES,
    AskModel,
    AskModelAsync,
    Reply,
    Request,
    is_from_a_person,
    said_by_the_model,
)
from deerflow.agents.thread_state import ThreadState
from deerflow.domain.context import RunContext, run_in
from deerflow.domain.errors import StorageUnavailable
from deerflow.domain.recall import Recalled, RunMemory

TOLD = "told_memory"
"""Where a reply notes what was told before it."""


class MemoryMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Puts what is remembered before the message that a thread begins with, or goes on with when it was compacted."""

    state_schema = ThreadState

    def wrap_model_call(self, request: Request, handler: AskModel) -> Reply:
        return handler(request)  # only runs have a memory, and they are never carried out so

    async def awrap_model_call(self, request: Request, handler: AskModelAsync) -> Reply:
        run = run_in(request.runtime.context) if request.runtime else None
        if run is None or run.memory is None:
            return await handler(request)
        noted = find_note(request.messages)
        recalled = await recall(run.memory, request.messages, noted)
        if receipt := run.memory.take_receipt(recalled):
            request.runtime.stream_writer(receipt.to_event())
        if not recalled.text:
            return await handler(request)
        at = place_before(request.messages, len(request.messages) if noted is None else noted)
        messages = [*request.messages[:at], told(recalled.text), *request.messages[at:]]
        reply = await handler(request.override(messages=messages))
        return noting(recalled.note, reply) if noted is None else reply


def told(text: str) -> HumanMessage:
    """Words for the model that stay in its view while the messages around them are compacted away."""
    return HumanMessage(text, additional_kwargs={HIDDEN: True, PINNED: True})


async def recall(memory: RunMemory, messages: Sequence[AnyMessage], noted: int | None) -> Recalled:
    """What to tell; nothing where the memory cannot be had, for an answer without it is better than none."""
    try:
        if noted is not None:
            return await memory.recall_again(messages[noted].additional_kwargs[TOLD])
        return await memory.recall(asked_first(messages)) if begins(messages) else Recalled()
    except StorageUnavailable:
        return Recalled()


def find_note(messages: Sequence[AnyMessage]) -> int | None:
    """Where the latest reply is before which something was told."""
    notes = (at for at in reversed(range(len(messages))) if isinstance(note_on(messages[at]), Mapping))
    return next(notes, None)


def note_on(message: AnyMessage) -> object:
    """What a reply notes."""
    return message.additional_kwargs.get(TOLD) if isinstance(message, AIMessage) else None


def begins(messages: Sequence[AnyMessage]) -> bool:
    """Whether nothing was answered yet, or what was told has gone with what was compacted away."""
    is_shortened = any(NOTES in message.additional_kwargs for message in messages)
    return is_shortened or not any(isinstance(message, AIMessage) for message in messages)


def asked_first(messages: Sequence[AnyMessage]) -> str:
    """What the person has said since the last answer."""
    return "\n".join(message.text for message in messages if is_from_a_person(message))[-2000:]


def place_before(messages: Sequence[AnyMessage], reply: int) -> int:
    """Before the message of a person that a reply answers, wherever it stands by now."""
    asked = (at for at in reversed(range(reply)) if is_from_a_person(messages[at]))
    return next(asked, reply)


def noting(note: Mapping[str, Any], reply: Reply) -> Reply:
    """`reply` that says what was told before it."""
    message = said_by_the_model(reply)
    if message is None:
        return reply
    noted = message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, TOLD: dict(note)}})
    return replace(reply, result=[noted if each is message else each for each in reply.result])
