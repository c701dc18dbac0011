"""A person's word for tools that wait for it."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import orjson

from deerflow.client.events import Reader, StreamEvent
from deerflow.client.faces import Session
from deerflow.client.runs import follow, last_words
from deerflow.domain.errors import Conflict, InvalidRequest
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import Resume, RunRequest


async def pending(session: Session, thread_id: str) -> list[dict[str, Any]]:
    """What a paused thread waits for, as `interrupts` of its state; tool calls are in `value["action_requests"]`.

    Raises:
        NotFound: there is no such thread.
    """
    state = await session.harness.threads.state(thread_id, LOCAL_USER)
    questions: list[dict[str, Any]] = orjson.loads(state.interrupts)
    return questions


async def approve(session: Session, thread_id: str) -> str:
    """Have the tool calls that wait made as they are, and return the answer.

    Raises:
        Conflict: nothing waits in this thread.
    """
    return await decide(session, thread_id, {"type": "approve"})


async def reject(session: Session, thread_id: str, reason: str | None = None) -> str:
    """Have none of the tool calls that wait made, tell the agent why, and return its answer.

    Raises:
        Conflict: nothing waits in this thread.
    """
    return await decide(session, thread_id, {"type": "reject", **({"message": reason} if reason else {})})


async def edit(session: Session, thread_id: str, args: Mapping[str, object]) -> str:
    """Have the tool call that waits made with `args` instead, and return the answer.

    Raises:
        Conflict: nothing waits in this thread.
        InvalidRequest: several calls wait; answer each with `resume`.
    """
    calls = [call for question in await open_questions(session, thread_id) for call in calls_in(question)]
    if len(calls) != 1:
        names = ", ".join(call["name"] for call in calls)
        raise InvalidRequest(f"{len(calls)} calls wait in thread {thread_id!r} ({names}): answer each with resume()")
    return await decide(
        session, thread_id, {"type": "edit", "edited_action": {"name": calls[0]["name"], "args": dict(args)}}
    )


async def resume(session: Session, thread_id: str, answer: object) -> str:
    """Let a paused thread go on with `answer`, and return what the agent says then.

    Args:
        thread_id: The thread that waits.
        answer: For tool calls `{"decisions": [...]}`, one for each call, in order: `{"type": "approve"}`,
            `{"type": "reject", "message": ...}` or `{"type": "edit", "edited_action": {"name": ..., "args": ...}}`.

    Raises:
        Conflict: nothing waits in this thread.
        InvalidRequest: the answer does not fit.
    """
    return await last_words(session, await going_on(session, thread_id, answer))


async def stream_resume(session: Session, thread_id: str, answer: object) -> AsyncGenerator[StreamEvent]:
    """Let a paused thread go on with `answer`, as `resume` takes it, and follow the run."""
    async with aclosing(follow(session, await going_on(session, thread_id, answer), Reader())) as events:
        async for event in events:
            yield event


async def decide(session: Session, thread_id: str, decision: Mapping[str, object]) -> str:
    """Answer everything that waits with the same decision."""
    questions = await open_questions(session, thread_id)
    answers = {each["id"]: {"decisions": [decision] * len(calls_in(each))} for each in questions}
    return await resume(session, thread_id, answers)


async def going_on(session: Session, thread_id: str, answer: object) -> RunRequest:
    """A request that goes on with `answer`."""
    await open_questions(session, thread_id)
    return RunRequest(thread_id, agent=session.agent, resume=Resume(answer), create_thread=False, budget=session.budget)


async def open_questions(session: Session, thread_id: str) -> list[dict[str, Any]]:
    """What waits in the thread, or `Conflict` when nothing does."""
    questions = await pending(session, thread_id)
    if not questions:
        raise Conflict(f"nothing waits for an answer in thread {thread_id!r}")
    return questions


def calls_in(question: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The tool calls a question is about."""
    if not is_about_calls(question):
        raise InvalidRequest(f"what waits is not a tool call but {question['value']!r}: answer it with resume()")
    calls: Sequence[Mapping[str, Any]] = question["value"]["action_requests"]
    return calls


def is_about_calls(question: Mapping[str, Any]) -> bool:
    """Whether a tool's calls wait, and not something a middleware or tool of the user's own asks."""
    return isinstance(question["value"], Mapping) and "action_requests" in question["value"]
