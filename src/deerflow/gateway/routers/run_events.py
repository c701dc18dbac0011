"""/threads/{thread_id}/runs/{run_id}/events"""

from collections.abc import Sequence
from typing import Annotated, get_args

import orjson
from fastapi import APIRouter, Query
from starlette.responses import Response

from deerflow.domain.errors import InvalidRequest
from deerflow.domain.events import EventName
from deerflow.gateway.dependencies import TheHarness, Who

router = APIRouter(tags=["runs"])

NAMES: Sequence[EventName] = get_args(EventName)


@router.get("/threads/{thread_id}/runs/{run_id}/events")
async def read_events(
    thread_id: str,
    run_id: str,
    harness: TheHarness,
    who: Who,
    after_seq: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 500,
    event_types: Annotated[list[str], Query()] = [],  # noqa: B006  # FastAPI copies it
) -> Response:
    """A page of the run's log with times: go on with `after_seq={next_after_seq}` while `has_more`."""
    names = wanted_names(event_types)
    run = await harness.runs.get(thread_id, run_id, who)
    found = await harness.timeline.page(run, after_seq, limit + 1, names)
    page = found[:limit]
    data = [
        {
            "seq": logged.event.seq,
            "event": logged.event.event,
            "data": orjson.Fragment(logged.event.data),
            "created_at": logged.created_at,
        }
        for logged in page
    ]
    next_after_seq = page[-1].event.seq if page else after_seq
    body = orjson.dumps({"data": data, "has_more": len(found) > limit, "next_after_seq": next_after_seq})
    return Response(body, media_type="application/json")


def wanted_names(asked: Sequence[str]) -> list[EventName]:
    """The names in `event_types`, which may be repeated or hold several, separated by commas.

    Raises:
        InvalidRequest: No event is called so.
    """
    names = [name.strip() for each in asked for name in each.split(",") if name.strip()]
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise InvalidRequest(f"event_types: no event is called {unknown[0]!r}; there are {', '.join(NAMES)}")
    return [name for name in NAMES if name in names]
