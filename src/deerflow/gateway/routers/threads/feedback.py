"""Feedback on runs: /threads/{thread_id}/runs/{run_id}/feedback."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from deerflow.domain import runs as domain
from deerflow.gateway.dependencies import CurrentUser, HarnessDep

router = APIRouter(prefix="/threads/{thread_id}/runs/{run_id}/feedback", tags=["feedback"])


class GiveFeedback(BaseModel):
    """Rating of a run, or of one of its messages."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"example": {"rating": 1, "comment": "Just what I needed.", "message_id": "answer"}},
    )

    rating: domain.Rating
    comment: Annotated[str | None, Field(max_length=4000)] = None
    message_id: Annotated[str | None, Field(min_length=1, max_length=255)] = None


class Feedback(BaseModel):
    """Stored feedback."""

    feedback_id: str
    thread_id: str
    run_id: str
    message_id: str | None
    rating: domain.Rating
    comment: str | None
    created_at: datetime
    updated_at: datetime

    @classmethod
    def from_domain(cls, given: domain.RunFeedback) -> "Feedback":
        return cls.model_validate(given, from_attributes=True)


class FeedbackStats(BaseModel):
    """Number of positive and negative ratings."""

    total: int
    positive: int
    negative: int


@router.put("", summary="Rate a run")
async def put_feedback(
    thread_id: str, run_id: str, body: GiveFeedback, harness: HarnessDep, user: CurrentUser
) -> Feedback:
    """Rate a run, or one of its messages; an earlier rating is replaced."""
    given = await harness.resources.feedback.put(thread_id, run_id, user, body.rating, body.comment, body.message_id)
    return Feedback.from_domain(given)


@router.post("", status_code=201, summary="Rate a run once")
async def add_feedback(
    thread_id: str, run_id: str, body: GiveFeedback, harness: HarnessDep, user: CurrentUser
) -> Feedback:
    """Rate a run, or one of its messages; 409 if there is a rating already."""
    put = harness.resources.feedback.put
    given = await put(thread_id, run_id, user, body.rating, body.comment, body.message_id, may_exist=False)
    return Feedback.from_domain(given)


@router.get("", summary="List the feedback on a run")
async def list_feedback(thread_id: str, run_id: str, harness: HarnessDep, user: CurrentUser) -> list[Feedback]:
    """List the feedback on a run and its messages, oldest first."""
    return [Feedback.from_domain(given) for given in await harness.resources.feedback.list(thread_id, run_id, user)]


@router.get("/stats", summary="Get feedback statistics of a run")
async def get_stats(thread_id: str, run_id: str, harness: HarnessDep, user: CurrentUser) -> FeedbackStats:
    """Get the number of ratings of each kind."""
    return FeedbackStats.model_validate(
        await harness.resources.feedback.stats(thread_id, run_id, user), from_attributes=True
    )


@router.delete("", status_code=204, summary="Delete all feedback on a run")
async def delete_all_feedback(thread_id: str, run_id: str, harness: HarnessDep, user: CurrentUser) -> None:
    """Delete all your feedback on a run."""
    await harness.resources.feedback.delete(thread_id, run_id, user)


@router.delete("/{feedback_id}", status_code=204, summary="Delete feedback")
async def delete_feedback(
    thread_id: str, run_id: str, feedback_id: str, harness: HarnessDep, user: CurrentUser
) -> None:
    """Delete one of your feedback entries on a run."""
    await harness.resources.feedback.delete(thread_id, run_id, user, feedback_id)
