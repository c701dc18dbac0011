"""Routes that are loaded when the first request for one of their kind comes, for most servers never see one."""

import asyncio
import re
from dataclasses import dataclass

from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from deerflow.config.imports import load_object


@dataclass(frozen=True, slots=True)
class Kind:
    """Routes that are loaded together: the module they are in, and how their paths begin; `*` is any one part."""

    module: str
    beginnings: tuple[str, ...]

    def load(self) -> APIRouter:
        """The routes. The first time this blocks."""
        return load_object(f"deerflow.gateway.routers.{self.module}:router", APIRouter)

    def pattern(self, prefix: str) -> re.Pattern[str]:
        """What fits the paths under a prefix."""
        one_of = "|".join(re.escape(each).replace(r"\*", "[^/]+") for each in self.beginnings)
        return re.compile(f"{re.escape(prefix)}(?:{one_of})(?:/|$)")


def add_routes(app: FastAPI, part: APIRouter | Kind, prefix: str, *, in_schema: bool = True) -> None:
    """Have an application answer under a prefix; what is a kind of routes only begins to when it is asked to."""
    if isinstance(part, Kind):
        app.router.routes.append(LateRoutes(app, part, prefix, in_schema=in_schema))
    else:
        app.include_router(part, prefix=prefix, include_in_schema=in_schema)


class LateRoutes(BaseRoute):
    """Stands where the routes of a kind will be, until one of them is asked for."""

    def __init__(self, app: FastAPI, kind: Kind, prefix: str, *, in_schema: bool) -> None:
        self._app = app
        self._kind = kind
        self._prefix = prefix
        self._in_schema = in_schema
        self._pattern = kind.pattern(prefix)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        is_wanted = scope["type"] == "http" and self._pattern.match(scope["path"])
        return (Match.FULL if is_wanted else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.to_thread(self._kind.load)  # others are being answered meanwhile
        self.settle()
        await self._app.router(scope, receive, send)

    def settle(self) -> None:
        """Have the routes themselves be where they were awaited; another request may have seen to that."""
        routes = self._app.router.routes
        if self not in routes:
            return
        end = len(routes)
        add_routes(self._app, self._kind.load(), self._prefix, in_schema=self._in_schema)
        added = routes[end:]
        del routes[end:]
        place = routes.index(self)
        routes[place : place + 1] = added


def settle_all(app: FastAPI) -> None:
    """Load every route there is, for whoever wants to know all of them."""
    for route in list(app.router.routes):
        if isinstance(route, LateRoutes):
            route.settle()
