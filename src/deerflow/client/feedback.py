"""What the user thinks of runs."""

from dataclasses import asdict
from typing import Any

from pydantic_core import to_jsonable_python

from deerflow.client.faces import Session
from deerflow.domain.feedback import Feedback, Rating
from deerflow.domain.principal import LOCAL_USER


async def give_feedback(
    session: Session,
    thread_id: str,
    run_id: str,
    rating: Rating,
    comment: str | None = None,
    message_id: str | None = None,
) -> dict[str, Any]:
    """Say what you think of a run, or of one of its messages: 1 or -1. Said before, it is changed.

    Raises:
        NotFound: there is no such run.
    """
    return show(
        await session.harness.resources.feedback.put(thread_id, run_id, LOCAL_USER, rating, comment, message_id)
    )


async def list_feedback(session: Session, thread_id: str, run_id: str) -> list[dict[str, Any]]:
    """What was said of a run, oldest first.

    Raises:
        NotFound: there is no such run.
    """
    return [show(given) for given in await session.harness.resources.feedback.list(thread_id, run_id, LOCAL_USER)]


async def get_feedback_stats(session: Session, thread_id: str, run_id: str) -> dict[str, int]:
    """How many opinions there are of each kind.

    Raises:
        NotFound: there is no such run.
    """
    return asdict(await session.harness.resources.feedback.stats(thread_id, run_id, LOCAL_USER))


async def delete_feedback(session: Session, thread_id: str, run_id: str, feedback_id: str | None = None) -> None:
    """Take back one thing you said of a run, or everything.

    Raises:
        NotFound: there is no such run, or nothing was said.
    """
    await session.harness.resources.feedback.delete(thread_id, run_id, LOCAL_USER, feedback_id)


def show(given: Feedback) -> dict[str, Any]:
    """An opinion in the shape of the HTTP API."""
    fields: dict[str, Any] = to_jsonable_python(asdict(given))
    fields.pop("owner")
    return fields
