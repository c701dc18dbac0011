"""/threads/{thread_id} and /threads/delete: threads that are to go, with all that belongs to them"""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from deerflow.domain.errors import InvalidRequest
from deerflow.domain.threads import ThreadFilter, ThreadStatus
from deerflow.gateway.dependencies import TheHarness, Who
from deerflow.gateway.examples import THREAD, shown_as
from deerflow.runtime.deletion import Deleted

router = APIRouter(prefix="/threads", tags=["threads"])

MOST = 1000
LATER = {"description": "Nobody sees it any more; its last bytes go a little later."}
StopRuns = Annotated[bool, Query(description="Stop its runs first, instead of refusing while one is under way.")]


class DeleteThreads(BaseModel):
    """Which threads are to go: those with these ids, or at most 1000 that are as described."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=shown_as({"ids": [THREAD], "stop_runs": True}))

    ids: Annotated[list[str] | None, Field(max_length=MOST)] = None
    metadata: dict[str, object] | None = None
    status: ThreadStatus | None = None
    stop_runs: bool = False

    def to_filter(self) -> ThreadFilter:
        """The threads that are meant, in the words of the domain.

        Raises:
            InvalidRequest: nothing is said of them, which would mean all.
        """
        if self.ids is None and not self.metadata and self.status is None:
            raise InvalidRequest("say which threads are to be deleted: by ids, metadata or status")
        return ThreadFilter(self.metadata or {}, self.ids, self.status)


class NotDeleted(BaseModel):
    """A thread that is still there, and why."""

    thread_id: str
    error: str
    detail: str


class DeletedThreads(BaseModel):
    """What became of a wish to delete several threads."""

    deleted: list[str]
    unfinished: list[str]
    """Nobody sees them any more; the last bytes of them go a little later."""
    failed: list[NotDeleted]

    @classmethod
    def of(cls, outcome: Deleted) -> "DeletedThreads":
        failed = [
            NotDeleted(thread_id=each.thread_id, error=type(each.problem).__name__, detail=str(each.problem))
            for each in outcome.failed
        ]
        return cls(deleted=list(outcome.deleted), unfinished=list(outcome.unfinished), failed=failed)


@router.delete(
    "/{thread_id}", status_code=204, responses={202: {"description": "It is gone; its last bytes go later."}}
)
async def delete_thread(thread_id: str, harness: TheHarness, who: Who, stop_runs: StopRuns = False) -> Response:
    """Remove a thread and all that belongs to it; 409 while a run is under way, unless that is to be stopped."""
    is_done = await harness.threads.delete(thread_id, who, stop_runs=stop_runs)
    return Response(status_code=204 if is_done else 202)


@router.post("/delete")
async def delete_threads(body: DeleteThreads, harness: TheHarness, who: Who) -> DeletedThreads:
    """Remove several threads. One that cannot be removed keeps none of the others, and the answer says which."""
    wanted = body.to_filter()
    ids = body.ids
    if body.metadata or body.status is not None or ids is None:
        ids = [thread.thread_id for thread in await harness.threads.search(who, MOST, 0, wanted)]
    return DeletedThreads.of(await harness.threads.delete_several(ids, who, stop_runs=body.stop_runs))
