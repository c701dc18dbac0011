"""Routes that are loaded when they are first asked for."""

import asyncio
import re

import pytest
from fastapi import FastAPI

from deerflow.gateway.app import AT_BOTH, OWN, create_app
from deerflow.gateway.late import Kind, LateRoutes, settle_all
from deerflow.testing import ScriptedModel
from tests.support import OpenHarness, browse

KINDS = [part for part in (*AT_BOTH, *OWN) if isinstance(part, Kind)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.module))
def test_the_paths_of_a_kind_begin_as_it_says(kind: Kind) -> None:
    paths = [re.sub(r"{[^}]+}", "x", route.path) for route in kind.load().routes]  # type: ignore[attr-defined]
    assert paths and [path for path in paths if not kind.pattern("/api").match(f"/api{path}")] == []


async def test_the_first_requests_of_a_kind_are_answered_as_later_ones(harness_saying: OpenHarness) -> None:
    asked = {
        ("GET", "/api/memory/nothing"): 404,
        ("PATCH", "/api/agents/check"): 405,
        ("GET", "/api/skillsandmore"): 404,
        ("GET", "/api/skills/custom"): 200,
        ("GET", "/api/user-profile"): 200,
        ("GET", "/api/langgraph/assistants/lead_agent"): 200,
    }
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        for (method, path), status in asked.items():
            first, also_first = await asyncio.gather(*(http.request(method, path) for _ in range(2)))
            later = await http.request(method, path)
            assert first.status_code == status, path
            assert first.text == also_first.text == later.text


async def test_routes_stand_where_they_were_awaited(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness:
        app = create_app(harness)
        places, end = late_places(app), len(app.router.routes)
        assert len(places) == len(KINDS) + sum(isinstance(part, Kind) for part in AT_BOTH)
        settle_all(app)
        assert late_places(app) == [] and len(app.router.routes) >= end
        assert app.router.routes[-1].path == "/{path:path}"  # type: ignore[attr-defined]  # the page takes all the rest


def late_places(app: FastAPI) -> list[int]:
    """Where routes are awaited."""
    return [place for place, route in enumerate(app.router.routes) if isinstance(route, LateRoutes)]
