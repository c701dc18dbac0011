"""Deletion of threads with all that belongs to them: /threads/{thread_id} and /threads/delete."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from deerflow.domain.errors import InvalidRequest
from deerflow.domain.threads import ThreadFilter, ThreadStatus
from deerflow.gateway.dependencies import CurrentUser, HarnessDep, ThreadOwner
from deerflow.gateway.examples import THREAD, with_examples
from deerflow.runtime.threads.deletion import DeletionResult

router = APIRouter(prefix="/threads", tags=["threads"])

MAX_THREADS = 1000
LATER = {"description": "Nobody sees it any more; its last bytes go a little later."}
StopRuns = Annotated[bool, Query(description="Cancel active runs first, instead of returning 409.")]


class DeleteThreads(BaseModel):
    """Threads to delete: those with these ids, or at most 1000 that match the filter."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=with_examples({"ids": [THREAD], "stop_runs": True}))

    ids: Annotated[list[str] | None, Field(max_length=MAX_THREADS)] = None
    metadata: dict[str, object] | None = None
    status: ThreadStatus | None = None
    stop_runs: bool = False

    def to_filter(self) -> ThreadFilter:
        """Return the filter of the domain.

        Raises:
            InvalidRequest: it has no criterion, which would match all threads.
        """
        if self.ids is None and not self.metadata and self.status is None:
            raise InvalidRequest("no criterion given; select threads by ids, metadata or status")
        return ThreadFilter(self.metadata or {}, self.ids, self.status)


class NotDeleted(BaseModel):
    """Thread that was not deleted, with the error."""

    thread_id: str
    error: str
    detail: str


class DeletedThreads(BaseModel):
    """Result of a deletion of several threads."""

    deleted: list[str]
    unfinished: list[str]
    """Threads that are no longer visible; their remaining data is deleted in the background."""
    failed: list[NotDeleted]

    @classmethod
    def from_domain(cls, outcome: DeletionResult) -> "DeletedThreads":
        failed = [
            NotDeleted(thread_id=each.thread_id, error=type(each.problem).__name__, detail=str(each.problem))
            for each in outcome.failed
        ]
        return cls(deleted=list(outcome.deleted), unfinished=list(outcome.unfinished), failed=failed)


@router.delete(
    "/{thread_id}",
    status_code=204,
    responses={202: {"description": "Deleted; remaining data is removed in the background."}},
)
async def delete_thread(
    thread_id: str, harness: HarnessDep, user: ThreadOwner, stop_runs: StopRuns = False
) -> Response:
    """Delete a thread and all that belongs to it; 409 while a run is active, unless `stop_runs` is set."""
    is_done = await harness.threads.delete(thread_id, user, stop_runs=stop_runs)
    return Response(status_code=204 if is_done else 202)


@router.post("/delete")
async def delete_threads(body: DeleteThreads, harness: HarnessDep, user: CurrentUser) -> DeletedThreads:
    """Delete several threads. A failure does not affect the others; the response lists failures."""
    wanted = body.to_filter()
    ids = body.ids
    if body.metadata or body.status is not None or ids is None:
        ids = [thread.thread_id for thread in await harness.threads.search(user, MAX_THREADS, 0, wanted)]
    return DeletedThreads.from_domain(await harness.threads.delete_several(ids, user, stop_runs=body.stop_runs))
