"""Pages of the event log of a run."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRequest
from deerflow.gateway.app import create_app
from deerflow.harness import open_harness
from deerflow.testing import ScriptedModel


@asynccontextmanager
async def open_ended_run(home: Path) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
    """Return a client and the URL of a run's events."""
    async with (
        open_harness(open_source(directory=home, environment={}), ScriptedModel.saying("Hello.")) as harness,
        asyncio.timeout(20),
    ):
        app = create_app(harness)
        run = await harness.runs.create_or_reject(RunRequest("t", [{"type": "human", "content": "Hi"}]), LOCAL_USER)
        await harness.runs.join("t", run.run_id, LOCAL_USER)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as http:
            yield http, f"/api/threads/t/runs/{run.run_id}/events"


async def get_page(http: httpx.AsyncClient, path: str, **options: Any) -> dict[str, Any]:
    answer = await http.get(path, params=options)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_pages_contain_the_whole_log(tmp_path: Path) -> None:
    async with open_ended_run(tmp_path) as (http, path):
        whole = await get_page(http, path)
        assert [event["seq"] for event in whole["data"]] == list(range(1, len(whole["data"]) + 1))
        assert [whole["data"][at]["event"] for at in (0, -1)] == ["metadata", "end"]
        assert not whole["has_more"] and whole["next_after_seq"] == len(whole["data"])
        times = [datetime.fromisoformat(event["created_at"]) for event in whole["data"]]
        assert times == sorted(times) and times[0].tzinfo is not None

        parts, after = [], 0
        while True:
            part = await get_page(http, path, after_seq=after, limit=2)
            parts += part["data"]
            after = part["next_after_seq"]
            if not part["has_more"]:
                break
        assert parts == whole["data"]
        assert await get_page(http, path, after_seq=after) == {"data": [], "has_more": False, "next_after_seq": after}


async def test_events_are_filtered_by_name(tmp_path: Path) -> None:
    async with open_ended_run(tmp_path) as (http, path):
        found = await get_page(http, path, event_types=["end", "metadata"])
        assert [event["event"] for event in found["data"]] == ["metadata", "end"]
        assert await get_page(http, path, event_types="end,metadata") == found
        assert (await get_page(http, path, event_types="end,metadata", limit=1))["has_more"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"event_types": "tokens"}, "unknown event 'tokens'"),
        ({"limit": 0}, "limit"),
        ({"limit": 1001}, "limit"),
        ({"after_seq": -1}, "after_seq"),
    ],
)
async def test_invalid_event_queries_are_rejected(tmp_path: Path, options: dict[str, Any], complaint: str) -> None:
    async with open_ended_run(tmp_path) as (http, path):
        answer = await http.get(path, params=options)
        assert answer.status_code == 422 and complaint in answer.json()["detail"]


async def test_an_unknown_run_is_not_found(tmp_path: Path) -> None:
    async with open_ended_run(tmp_path) as (http, path):
        assert (await http.get(path.replace("/t/", "/other/"))).status_code == 404
        assert (await http.get("/api/threads/t/runs/none/events")).status_code == 404
