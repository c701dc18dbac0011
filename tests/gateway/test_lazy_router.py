"""Lazy routers."""

import asyncio
import re

import pytest
from starlette.routing import Match

from deerflow.domain.identity import Principal
from deerflow.gateway.app import create_app
from deerflow.gateway.routers import load_files
from deerflow.gateway.routes import LANGGRAPH_ROUTES, ROUTES, LazyRoute, LazyRouter
from deerflow.testing import ScriptedModel
from tests.support import OpenHarness, browse

LAZY = [router for router in (*LANGGRAPH_ROUTES, *ROUTES) if isinstance(router, LazyRouter)]


@pytest.mark.parametrize("router", LAZY, ids=lambda router: str(router.load.__name__))
def test_paths_of_a_lazy_router_have_its_prefixes(router: LazyRouter) -> None:
    paths = [re.sub(r"{[^}]+}", "x", route.path) for route in router.load().routes]  # type: ignore[attr-defined]
    assert paths and [path for path in paths if not router.has_path(path)] == []


@pytest.mark.parametrize(
    ("path", "is_below"),
    [
        ("/threads/t/files", True),
        ("/threads/t/files/a/b", True),
        ("/threads/t/filesystem", False),
        ("/threads/t", False),
        ("/threads//files", False),
        ("/threads/files", False),
        ("/files", False),
    ],
)
def test_a_star_in_a_prefix_is_one_segment_that_is_not_empty(path: str, is_below: bool) -> None:
    assert LazyRouter(load_files, ("/threads/*/files",)).has_path(path) is is_below


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


async def test_a_router_is_loaded_with_its_first_request_only(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness:
        app = create_app(harness)
        lazy = [route for route in app.router.routes if isinstance(route, LazyRoute)]
        assert len(lazy) == len(LAZY) + sum(isinstance(router, LazyRouter) for router in LANGGRAPH_ROUTES)
        async with browse(harness, app) as http:
            await http.get("/api/memory")
            await http.get("/api/nothing")
        assert [route.matches({"type": "http", "path": "/api/memory", "method": "GET"})[0] for route in lazy].count(
            Match.FULL
        ) == 1
        assert sum(route.mounted is not None for route in lazy) == 1
        assert app.router.routes[-1].path == "/{path:path}"  # type: ignore[attr-defined]  # the page takes all the rest


async def test_applications_share_the_routes_of_a_router_but_not_their_state(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness:
        first, second = create_app(harness), create_app(harness)
        second.state.identify = lambda _request: Principal("stranger")
        async with browse(harness, first) as http:
            assert (await http.post("/api/threads", json={"thread_id": "t"})).status_code == 200
            assert (await http.get("/api/langgraph/threads/t")).status_code == 200
        async with browse(harness, second) as http:
            assert (await http.get("/api/langgraph/threads/t")).status_code == 404
