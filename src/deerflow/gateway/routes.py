"""Routes of the gateway in one table: those of health checks, and lazy ones that are imported on first use."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from deerflow.gateway import mcp_endpoint, routers
from deerflow.gateway.routers import health

API = "/api"
PREFIXES = ("/api/langgraph", API)
"""Prefixes of the LangGraph API: where its clients expect it, and a short one."""


@dataclass(frozen=True, slots=True)
class LazyRouter:
    """Router with a function that imports it, and the prefixes of its paths; `*` stands for one path segment."""

    load: Callable[[], APIRouter]
    path_prefixes: tuple[str, ...]

    def has_path(self, path: str) -> bool:
        """Return whether the path begins with a prefix of the router."""
        segments = path.split("/")
        return any(begins_with(segments, prefix.split("/")) for prefix in self.path_prefixes)


def begins_with(segments: Sequence[str], prefix: Sequence[str]) -> bool:
    """Return whether segments of a path begin with those of a prefix."""
    pairs = zip(segments, prefix, strict=False)
    return len(segments) >= len(prefix) and all(wanted in (name, "*" if name else None) for name, wanted in pairs)


class MountedRouter(BaseRoute):
    """Routes of a router, below a prefix.

    `include_router` builds them again, with their validators, for each prefix and application. This uses them as they
    are.
    """

    def __init__(self, router: APIRouter, prefix: str = "") -> None:
        self._routes = router.routes
        self._prefix = prefix

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        partial: Scope | None = None
        if scope["type"] == "http" and scope["path"].startswith(f"{self._prefix}/"):
            root = scope.get("root_path", "")
            place = {"root_path": root + self._prefix, "app_root_path": scope.get("app_root_path", root)}
            below = {**scope, **place}
            for route in self._routes:
                match, found = route.matches(below)
                if match is Match.FULL:
                    return match, {**place, **found, "route": route}
                if match is Match.PARTIAL and partial is None:
                    partial = {**place, **found, "route": route}
        return (Match.NONE, {}) if partial is None else (Match.PARTIAL, partial)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await scope["route"].handle(scope, receive, send)


class LazyRoute(BaseRoute):
    """Routes of a lazy router, below a prefix."""

    def __init__(self, router: LazyRouter, prefix: str) -> None:
        self._router = router
        self._prefix = prefix
        # Compared first, for speed. Regular expressions would take longer to compile than all else in this module.
        self._literals = tuple(prefix + each.partition("*")[0] for each in router.path_prefixes)
        self.mounted: MountedRouter | None = None
        """The routes, after the first request."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if self.mounted is not None:
            return self.mounted.matches(scope)
        is_match = (
            scope["type"] == "http"
            and scope["path"].startswith(self._literals)
            and self._router.has_path(scope["path"][len(self._prefix) :])
        )
        return (Match.FULL if is_match else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.mounted is None:
            router = await asyncio.to_thread(self._router.load)  # imports and validators take a tenth of a second
            self.mounted = MountedRouter(router, self._prefix)
            await scope["app"].router(scope, receive, send)  # the path may be that of another router
        else:
            await self.mounted.handle(scope, receive, send)


def create_routes() -> list[BaseRoute]:
    """Return the routes of an application."""
    routes: list[BaseRoute] = [MountedRouter(health.router), MountedRouter(mcp_endpoint.router)]
    routes += [create_route(router, prefix) for prefix in PREFIXES for router in LANGGRAPH_ROUTES]
    return routes + [create_route(router, API) for router in ROUTES]


def create_route(router: APIRouter | LazyRouter, prefix: str) -> BaseRoute:
    """Return the routes of a router below a prefix."""
    return LazyRoute(router, prefix) if isinstance(router, LazyRouter) else MountedRouter(router, prefix)


def include_all(app: FastAPI) -> None:
    """Add the routes of all routers to an application that is only described, not served."""
    app.include_router(health.router)
    app.include_router(mcp_endpoint.router)
    for router in (*LANGGRAPH_ROUTES, *ROUTES):
        app.include_router(router.load() if isinstance(router, LazyRouter) else router, prefix=API)


LANGGRAPH_ROUTES = (
    LazyRouter(routers.load_threads, ("/threads",)),
    LazyRouter(routers.load_deletion, ("/threads",)),
    LazyRouter(routers.load_messages, ("/threads/*/messages",)),
    LazyRouter(routers.load_runs, ("/runs", "/threads/*/runs")),
    LazyRouter(routers.load_run_events, ("/threads/*/runs/*/events",)),
    LazyRouter(routers.load_workspace_changes, ("/threads/*/runs/*/workspace-changes",)),
    LazyRouter(routers.load_assistants, ("/assistants",)),
    LazyRouter(routers.load_store, ("/store",)),
    health.info_router,
)
"""Routes of the LangGraph API, which are also below /api."""
ROUTES = (
    LazyRouter(routers.load_models, ("/models", "/starters")),
    LazyRouter(routers.load_embedding_model, ("/embedding-model",)),
    LazyRouter(routers.load_model_connections, ("/model-providers", "/model-connections", "/saved-models")),
    LazyRouter(routers.load_account_admin, ("/v1/auth/users", "/v1/auth/invitations", "/v1/auth/setup-link")),
    LazyRouter(
        routers.load_login_methods,
        tuple(f"/v1/auth/{each}" for each in ("providers", "oauth", "callback", "identities", "passkeys")),
    ),
    LazyRouter(routers.load_audit, ("/audit", "/v1/auth/admin-access")),
    LazyRouter(routers.load_accounts, ("/v1/auth",)),
    LazyRouter(routers.load_admin_messages, ("/admin/threads/*/messages",)),
    LazyRouter(
        routers.load_teams,
        ("/teams", "/shared-with-me", *(f"/{kind}/*/grants" for kind in ("threads", "agents", "skills/custom"))),
    ),
    LazyRouter(routers.load_channels, ("/channels", "/hooks")),
    LazyRouter(routers.load_agents, ("/agents",)),
    LazyRouter(routers.load_projects, ("/projects",)),
    LazyRouter(
        routers.load_custom_skills, ("/skills/custom", "/skills/install")
    ),  # before skills, whose routes would match these paths
    LazyRouter(routers.load_skills, ("/skills",)),
    LazyRouter(
        routers.load_artifacts,
        ("/threads/*/artifacts", "/threads/*/artifacts.zip", "/threads/*/thumbnails", "/threads/*/file-previews"),
    ),
    LazyRouter(routers.load_files, ("/threads/*/files",)),
    LazyRouter(routers.load_previews, ("/threads/*/previews",)),
    LazyRouter(routers.load_uploads, ("/threads/*/uploads",)),
    LazyRouter(routers.load_upload_limits, ("/uploads",)),
    LazyRouter(routers.load_sandbox, ("/sandbox",)),
    LazyRouter(routers.load_search, ("/search",)),
    LazyRouter(routers.load_usage, ("/threads/*/token-usage", "/threads/*/runs/*/token-usage", "/console")),
    LazyRouter(routers.load_feedback, ("/threads/*/runs/*/feedback", "/threads/*/feedback")),
    LazyRouter(routers.load_permissions, ("/threads/*/permissions",)),
    LazyRouter(routers.load_export, ("/threads/*/export",)),
    LazyRouter(routers.load_sharing, ("/threads/*/shares",)),
    LazyRouter(routers.load_shared, ("/shared",)),
    LazyRouter(
        routers.load_suggestions, ("/threads/*/suggestions", "/threads/*/compact", "/suggestions", "/input-polish")
    ),
    LazyRouter(routers.load_features, ("/features",)),
    LazyRouter(routers.load_user_profile, ("/user-profile",)),
    LazyRouter(routers.load_memory, ("/memory",)),
    LazyRouter(routers.load_mcp, ("/mcp",)),
    LazyRouter(routers.load_tools, ("/tools", "/policy")),
    LazyRouter(routers.load_web_pages, ("/threads/*/web-pages",)),
)
"""Routes below /api only."""
