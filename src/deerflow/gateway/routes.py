"""Routes of the gateway in one table: those every page load needs, and lazy ones that are imported on first use."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass

from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from deerflow.gateway import mcp_endpoint
from deerflow.gateway.routers import features, health
from deerflow.gateway.routers.threads import deletion, threads

API = "/api"
PREFIXES = ("/api/langgraph", API)
"""Prefixes of the LangGraph API: where its clients expect it, and a short one."""


@dataclass(frozen=True, slots=True)
class LazyRouter:
    """Router with a function that imports it, and the prefixes of its paths; `*` stands for one path segment."""

    load: Callable[[], APIRouter]
    path_prefixes: tuple[str, ...]

    def compile_pattern(self, prefix: str) -> re.Pattern[str]:
        """Return a pattern that matches the paths of the router below `prefix`."""
        alternatives = "|".join(re.escape(each).replace(r"\*", "[^/]+") for each in self.path_prefixes)
        return re.compile(f"{re.escape(prefix)}(?:{alternatives})(?:/|$)")


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
        self._pattern = router.compile_pattern(prefix)
        self.mounted: MountedRouter | None = None
        """The routes, after the first request."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if self.mounted is not None:
            return self.mounted.matches(scope)
        is_match = scope["type"] == "http" and self._pattern.match(scope["path"])
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


def load_messages() -> APIRouter:
    """Import the router of /threads/*/messages."""
    from deerflow.gateway.routers.threads.messages import router

    return router


def load_runs() -> APIRouter:
    """Import the router of /runs."""
    from deerflow.gateway.routers.threads.runs import router

    return router


def load_run_events() -> APIRouter:
    """Import the router of /threads/*/runs/*/events."""
    from deerflow.gateway.routers.threads.runs import events_router

    return events_router


def load_workspace_changes() -> APIRouter:
    """Import the router of /threads/*/runs/*/workspace-changes."""
    from deerflow.gateway.routers.threads.files import changes_router

    return changes_router


def load_assistants() -> APIRouter:
    """Import the router of /assistants."""
    from deerflow.gateway.routers.assistants import router

    return router


def load_store() -> APIRouter:
    """Import the router of /store."""
    from deerflow.gateway.routers.store import router

    return router


def load_agents() -> APIRouter:
    """Import the router of /agents."""
    from deerflow.gateway.routers.agents import router

    return router


def load_custom_skills() -> APIRouter:
    """Import the router of /skills/custom."""
    from deerflow.gateway.routers.skills import custom_router

    return custom_router


def load_skills() -> APIRouter:
    """Import the router of /skills."""
    from deerflow.gateway.routers.skills import router

    return router


def load_artifacts() -> APIRouter:
    """Import the router of /threads/*/artifacts."""
    from deerflow.gateway.routers.threads.artifacts import router

    return router


def load_files() -> APIRouter:
    """Import the router of /threads/*/files."""
    from deerflow.gateway.routers.threads.files import router

    return router


def load_previews() -> APIRouter:
    """Import the router of /threads/*/previews."""
    from deerflow.gateway.routers.threads.artifacts import preview_router

    return preview_router


def load_uploads() -> APIRouter:
    """Import the router of /threads/*/uploads."""
    from deerflow.gateway.routers.threads.uploads import router

    return router


def load_upload_limits() -> APIRouter:
    """Import the router of /uploads."""
    from deerflow.gateway.routers.threads.uploads import limits_router

    return limits_router


def load_search() -> APIRouter:
    """Import the router of /search."""
    from deerflow.gateway.routers.threads.messages import search_router

    return search_router


def load_usage() -> APIRouter:
    """Import the router of /threads/*/token-usage."""
    from deerflow.gateway.routers.usage import router

    return router


def load_feedback() -> APIRouter:
    """Import the router of /threads/*/runs/*/feedback."""
    from deerflow.gateway.routers.threads.feedback import router

    return router


def load_export() -> APIRouter:
    """Import the router of /threads/*/export."""
    from deerflow.gateway.routers.threads.messages import export_router

    return export_router


def load_permissions() -> APIRouter:
    """Import the router of /threads/*/permissions."""
    from deerflow.gateway.routers.threads.feedback import permissions_router

    return permissions_router


def load_sharing() -> APIRouter:
    """Import the router of /threads/*/shares."""
    from deerflow.gateway.routers.threads.sharing import router

    return router


def load_shared() -> APIRouter:
    """Import the router of /shared."""
    from deerflow.gateway.routers.threads.sharing import shared_router

    return shared_router


def load_suggestions() -> APIRouter:
    """Import the router of /threads/*/suggestions."""
    from deerflow.gateway.routers.threads.suggestions import router

    return router


def load_user_profile() -> APIRouter:
    """Import the router of /user-profile."""
    from deerflow.gateway.routers.agents import profile_router

    return profile_router


def load_memory() -> APIRouter:
    """Import the router of /memory."""
    from deerflow.gateway.routers.memory import router

    return router


def load_mcp() -> APIRouter:
    """Import the router of /mcp."""
    from deerflow.gateway.routers.mcp import router

    return router


def load_web_pages() -> APIRouter:
    """Import the router of /threads/*/web-pages."""
    from deerflow.gateway.routers.threads.web_pages import router

    return router


def load_tools() -> APIRouter:
    """Return the router of /tools; its routes are built on first use."""
    return features.tools_router


def load_projects() -> APIRouter:
    """Import the router of /projects."""
    from deerflow.gateway.routers.projects import router

    return router


def load_embedding_model() -> APIRouter:
    """Import the router of /embedding-model."""
    from deerflow.gateway.routers.projects import embedding_router

    return embedding_router


def load_accounts() -> APIRouter:
    """Import the router of /v1/auth."""
    from deerflow.gateway.routers.accounts import router

    return router


def load_login_methods() -> APIRouter:
    """Import the router of single sign-on and passkeys."""
    from deerflow.gateway.routers.login_methods import router

    return router


def load_account_admin() -> APIRouter:
    """Import the router of /v1/auth/users and /v1/auth/invitations."""
    from deerflow.gateway.routers.accounts import admin_router

    return admin_router


def load_audit() -> APIRouter:
    """Import the router of /audit."""
    from deerflow.gateway.routers.accounts import audit_router

    return audit_router


def load_admin_messages() -> APIRouter:
    """Import the router of /admin/threads/*/messages."""
    from deerflow.gateway.routers.threads.messages import admin_router

    return admin_router


def load_model_connections() -> APIRouter:
    """Import the router of /model-connections."""
    from deerflow.gateway.routers.model_connections import router

    return router


LANGGRAPH_ROUTES = (
    threads.router,
    deletion.router,
    LazyRouter(load_messages, ("/threads/*/messages",)),
    LazyRouter(load_runs, ("/runs", "/threads/*/runs")),
    LazyRouter(load_run_events, ("/threads/*/runs/*/events",)),
    LazyRouter(load_workspace_changes, ("/threads/*/runs/*/workspace-changes",)),
    LazyRouter(load_assistants, ("/assistants",)),
    LazyRouter(load_store, ("/store",)),
    health.info_router,
)
"""Routes of the LangGraph API, which are also below /api."""
ROUTES = (
    features.models_router,
    LazyRouter(load_embedding_model, ("/embedding-model",)),
    LazyRouter(load_model_connections, ("/model-providers", "/model-connections", "/saved-models")),
    LazyRouter(load_account_admin, ("/v1/auth/users", "/v1/auth/invitations", "/v1/auth/setup-link")),
    LazyRouter(
        load_login_methods,
        tuple(f"/v1/auth/{each}" for each in ("providers", "oauth", "callback", "identities", "passkeys")),
    ),
    LazyRouter(load_accounts, ("/v1/auth",)),
    LazyRouter(load_audit, ("/audit",)),
    LazyRouter(load_admin_messages, ("/admin/threads/*/messages",)),
    LazyRouter(load_agents, ("/agents",)),
    LazyRouter(load_projects, ("/projects",)),
    LazyRouter(
        load_custom_skills, ("/skills/custom", "/skills/install")
    ),  # before skills, whose routes would match these paths
    LazyRouter(load_skills, ("/skills",)),
    LazyRouter(
        load_artifacts,
        ("/threads/*/artifacts", "/threads/*/artifacts.zip", "/threads/*/thumbnails", "/threads/*/file-previews"),
    ),
    LazyRouter(load_files, ("/threads/*/files",)),
    LazyRouter(load_previews, ("/threads/*/previews",)),
    LazyRouter(load_uploads, ("/threads/*/uploads",)),
    LazyRouter(load_upload_limits, ("/uploads",)),
    features.sandbox_router,
    LazyRouter(load_search, ("/search",)),
    LazyRouter(load_usage, ("/threads/*/token-usage", "/threads/*/runs/*/token-usage", "/console")),
    LazyRouter(load_feedback, ("/threads/*/runs/*/feedback", "/threads/*/feedback")),
    LazyRouter(load_permissions, ("/threads/*/permissions",)),
    LazyRouter(load_export, ("/threads/*/export",)),
    LazyRouter(load_sharing, ("/threads/*/shares",)),
    LazyRouter(load_shared, ("/shared",)),
    LazyRouter(load_suggestions, ("/threads/*/suggestions", "/threads/*/compact", "/suggestions", "/input-polish")),
    features.features_router,
    LazyRouter(load_user_profile, ("/user-profile",)),
    LazyRouter(load_memory, ("/memory",)),
    LazyRouter(load_mcp, ("/mcp",)),
    LazyRouter(load_tools, ("/tools", "/policy")),
    LazyRouter(load_web_pages, ("/threads/*/web-pages",)),
)
"""Routes below /api only."""
