"""Talking to the agent."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from deerflow.client.events import Reader, StreamEvent
from deerflow.client.faces import Session
from deerflow.domain.ids import new_id
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import RunRequest


async def chat(session: Session, message: str, *, thread_id: str | None = None) -> str:
    """Send `message` and return the answer.

    When a tool waits for a person's word, what was said so far is returned; see `pending`.

    Raises:
        RunFailed: the run ended without an answer.
        Conflict: the thread has a run under way.
    """
    return await last_words(session, saying(session, message, thread_id))


def stream(session: Session, message: str, *, thread_id: str | None = None) -> AsyncGenerator[StreamEvent]:
    """Send `message` and follow the run. Leaving the loop early stops it."""
    return follow(session, saying(session, message, thread_id), Reader())


def saying(session: Session, message: str, thread_id: str | None) -> RunRequest:
    """A request that says `message`, in a new thread unless one is named."""
    said = [{"type": "human", "content": message}]
    return RunRequest(thread_id or new_id(), said, session.agent, budget=session.budget)


async def last_words(session: Session, request: RunRequest) -> str:
    """What a run for `request` says in the end."""
    reader = Reader()
    async with aclosing(follow(session, request, reader)) as events:
        async for _event in events:
            pass
    return reader.answer


async def follow(session: Session, request: RunRequest, reader: Reader) -> AsyncGenerator[StreamEvent]:
    """The events of a run for `request`; it is stopped when nobody wants more of them."""
    runs = session.harness.runs
    run = await runs.create_or_reject(request, LOCAL_USER)
    reader.begin(await runs.state_before(run, after=0))
    is_over = False
    try:
        async with aclosing(runs.listen(run)) as groups:
            async for group in groups:
                for event in filter(None, map(reader.read, group)):
                    yield event
        is_over = True
    finally:
        if not is_over:
            await runs.stop(run.run_id)
