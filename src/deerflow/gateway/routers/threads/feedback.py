"""Decisions of users in a thread: feedback on its runs, and permissions of tools (/threads/{thread_id}/permissions)."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from deerflow.domain import runs as domain
from deerflow.gateway.dependencies import HarnessDep, ThreadOwner
from deerflow.persistence.queries.audit import AuditEvent
from deerflow.services.audit import audited
from deerflow.services.user_data import GrantedPermission

router = APIRouter(prefix="/threads/{thread_id}", tags=["feedback"])
permissions_router = APIRouter(prefix="/threads/{thread_id}/permissions", tags=["permissions"])


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


@router.put("/runs/{run_id}/feedback", summary="Rate a run")
async def put_feedback(
    thread_id: str, run_id: str, body: GiveFeedback, harness: HarnessDep, user: ThreadOwner
) -> Feedback:
    """Rate a run, or one of its messages; an earlier rating is replaced."""
    given = await harness.resources.feedback.put(thread_id, run_id, user, body.rating, body.comment, body.message_id)
    return Feedback.from_domain(given)


@router.post("/runs/{run_id}/feedback", status_code=201, summary="Rate a run once")
async def add_feedback(
    thread_id: str, run_id: str, body: GiveFeedback, harness: HarnessDep, user: ThreadOwner
) -> Feedback:
    """Rate a run, or one of its messages; 409 if there is a rating already."""
    put = harness.resources.feedback.put
    given = await put(thread_id, run_id, user, body.rating, body.comment, body.message_id, may_exist=False)
    return Feedback.from_domain(given)


@router.get("/runs/{run_id}/feedback", summary="List the feedback on a run")
async def list_feedback(thread_id: str, run_id: str, harness: HarnessDep, user: ThreadOwner) -> list[Feedback]:
    """List the feedback on a run and its messages, oldest first."""
    return [Feedback.from_domain(given) for given in await harness.resources.feedback.list(thread_id, run_id, user)]


@router.get("/feedback", summary="List the feedback in a thread")
async def list_thread_feedback(thread_id: str, harness: HarnessDep, user: ThreadOwner) -> list[Feedback]:
    """List the feedback on all runs of a thread, oldest first."""
    return [Feedback.from_domain(given) for given in await harness.resources.feedback.list_thread(thread_id, user)]


@router.get("/runs/{run_id}/feedback/stats", summary="Get feedback statistics of a run")
async def get_stats(thread_id: str, run_id: str, harness: HarnessDep, user: ThreadOwner) -> FeedbackStats:
    """Get the number of ratings of each kind."""
    return FeedbackStats.model_validate(
        await harness.resources.feedback.stats(thread_id, run_id, user), from_attributes=True
    )


@router.delete("/runs/{run_id}/feedback", status_code=204, summary="Delete all feedback on a run")
async def delete_all_feedback(thread_id: str, run_id: str, harness: HarnessDep, user: ThreadOwner) -> None:
    """Delete all your feedback on a run."""
    await harness.resources.feedback.delete(thread_id, run_id, user)


@router.delete("/runs/{run_id}/feedback/{feedback_id}", status_code=204, summary="Delete feedback")
async def delete_feedback(
    thread_id: str, run_id: str, feedback_id: str, harness: HarnessDep, user: ThreadOwner
) -> None:
    """Delete one of your feedback entries on a run."""
    await harness.resources.feedback.delete(thread_id, run_id, user, feedback_id)


class Permission(BaseModel):
    """Tool calls that you have allowed in a thread without being asked again."""

    permission_id: str
    tool: str
    rule: str
    """Rule that would ask; empty if every call of the tool needs approval."""
    hosts: list[str]
    """Hosts of the URLs in the arguments; calls with others are still asked about."""
    created_at: datetime

    @classmethod
    def from_domain(cls, given: GrantedPermission) -> "Permission":
        permission = given.permission
        return cls(
            permission_id=given.permission_id,
            tool=permission.tool,
            rule=permission.rule,
            hosts=[*permission.hosts],
            created_at=given.created_at,
        )


class Permissions(BaseModel):
    """Permissions of a thread."""

    permissions: list[Permission]


@permissions_router.get("", summary="List what is allowed in a thread")
async def list_permissions(thread_id: str, harness: HarnessDep, user: ThreadOwner) -> Permissions:
    """List the tool calls that you have allowed in a thread, oldest first.

    They are granted by a decision `{"type": "approve", "scope": "thread"}`, and deleted with the thread.
    """
    found = await harness.resources.permissions.list(thread_id, user)
    return Permissions(permissions=[Permission.from_domain(given) for given in found])


@permissions_router.delete("/{permission_id}", status_code=204, summary="Revoke a permission")
async def revoke_permission(thread_id: str, permission_id: str, harness: HarnessDep, user: ThreadOwner) -> None:
    """Revoke a permission; the next such call needs approval again, also of an active run."""
    details = {"action": "revoke_permission", "thread": thread_id, "permission": permission_id}
    event = AuditEvent("configuration.permission", user.user_id, user.user_id, details=details)
    await audited(harness.resources.permissions, event).revoke(thread_id, user, permission_id)
