"""Lazy routers."""

import asyncio
import re

import pytest
from fastapi import FastAPI

from deerflow.gateway.app import create_app
from deerflow.gateway.routes import LANGGRAPH_ROUTES, ROUTES, LazyRoute, LazyRouter, mount_all
from deerflow.testing import ScriptedModel
from tests.support import OpenHarness, browse

LAZY = [router for router in (*LANGGRAPH_ROUTES, *ROUTES) if isinstance(router, LazyRouter)]


@pytest.mark.parametrize("router", LAZY, ids=lambda router: str(router.load.__name__))
def test_paths_of_a_lazy_router_have_its_prefixes(router: LazyRouter) -> None:
    paths = [re.sub(r"{[^}]+}", "x", route.path) for route in router.load().routes]  # type: ignore[attr-defined]
    assert paths and [path for path in paths if not router.compile_pattern("/api").match(f"/api{path}")] == []


async def test_first_requests_are_answered_like_later_ones(harness_saying: OpenHarness) -> None:
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


async def test_lazy_routes_are_mounted_in_place(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness:
        app = create_app(harness)
        positions, end = lazy_positions(app), len(app.router.routes)
        assert len(positions) == len(LAZY) + sum(isinstance(router, LazyRouter) for router in LANGGRAPH_ROUTES)
        await asyncio.to_thread(mount_all, app)
        assert lazy_positions(app) == [] and len(app.router.routes) >= end
        assert app.router.routes[-1].path == "/{path:path}"  # type: ignore[attr-defined]  # the page takes all the rest


def lazy_positions(app: FastAPI) -> list[int]:
    """Return the positions of the placeholders."""
    return [place for place, route in enumerate(app.router.routes) if isinstance(route, LazyRoute)]
