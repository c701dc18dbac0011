"""/threads/{thread_id}/runs/{run_id}/feedback: what people think of a run"""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from deerflow.domain import feedback as words
from deerflow.gateway.dependencies import TheHarness, Who

router = APIRouter(prefix="/threads/{thread_id}/runs/{run_id}/feedback", tags=["feedback"])


class GiveFeedback(BaseModel):
    """What somebody thinks of a run, or of one of its messages."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"example": {"rating": 1, "comment": "Just what I needed.", "message_id": "answer"}},
    )

    rating: words.Rating
    comment: Annotated[str | None, Field(max_length=4000)] = None
    message_id: Annotated[str | None, Field(min_length=1, max_length=255)] = None


class Feedback(BaseModel):
    """An opinion, as the API shows it."""

    feedback_id: str
    thread_id: str
    run_id: str
    message_id: str | None
    rating: words.Rating
    comment: str | None
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, given: words.Feedback) -> "Feedback":
        return cls.model_validate(given, from_attributes=True)


class FeedbackStats(BaseModel):
    """How many liked it, and how many did not."""

    total: int
    positive: int
    negative: int


@router.put("", summary="Say what you think of a run")
async def put_feedback(thread_id: str, run_id: str, body: GiveFeedback, harness: TheHarness, who: Who) -> Feedback:
    """Say what you think of a run, or of one of its messages; what you said of it before is replaced."""
    given = await harness.resources.feedback.put(thread_id, run_id, who, body.rating, body.comment, body.message_id)
    return Feedback.of(given)


@router.post("", status_code=201, summary="Say what you think of a run for the first time")
async def add_feedback(thread_id: str, run_id: str, body: GiveFeedback, harness: TheHarness, who: Who) -> Feedback:
    """The same, but refused with 409 when you have said something of it before."""
    say = harness.resources.feedback.put
    given = await say(thread_id, run_id, who, body.rating, body.comment, body.message_id, may_exist=False)
    return Feedback.of(given)


@router.get("", summary="What was said of a run")
async def list_feedback(thread_id: str, run_id: str, harness: TheHarness, who: Who) -> list[Feedback]:
    """What was said of a run and its messages, oldest first."""
    return [Feedback.of(given) for given in await harness.resources.feedback.list(thread_id, run_id, who)]


@router.get("/stats", summary="How a run was liked")
async def get_stats(thread_id: str, run_id: str, harness: TheHarness, who: Who) -> FeedbackStats:
    """How many opinions there are of each kind."""
    return FeedbackStats.model_validate(
        await harness.resources.feedback.stats(thread_id, run_id, who), from_attributes=True
    )


@router.delete("", status_code=204, summary="Take back all feedback on a run")
async def delete_all_feedback(thread_id: str, run_id: str, harness: TheHarness, who: Who) -> None:
    """Take back everything you said of a run."""
    await harness.resources.feedback.delete(thread_id, run_id, who)


@router.delete("/{feedback_id}", status_code=204, summary="Take back one thing")
async def delete_feedback(thread_id: str, run_id: str, feedback_id: str, harness: TheHarness, who: Who) -> None:
    """Take back one thing you said of a run."""
    await harness.resources.feedback.delete(thread_id, run_id, who, feedback_id)
