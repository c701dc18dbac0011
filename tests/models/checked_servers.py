"""Scripted servers for checks of model endpoints."""

from typing import Any

from deerflow.models.check import CheckLimits, CheckReport, EndpointCheck
from deerflow.models.connection import find_provider
from deerflow.testing import Answer, ScriptedServer, ServerRequest, calling
from deerflow.testing.scripted_server import ServerReply

KEY = "sk-canary-5f0c2b71d9"
LIMITS = CheckLimits(listing_s=5.0, test_s=5.0)


def answer_check(request: ServerRequest) -> ServerReply:
    """Answer both tests of a check, and any other message."""
    if any(tool["function"]["name"] == "get_weather" for tool in request.body.get("tools", ())):
        return calling("get_weather", city="Paris")
    return Answer(("1 ", "2 ", "3 ", "4"))


def capable_server(**settings: Any) -> ScriptedServer:
    """Return a server that passes all tests of a check."""
    return ScriptedServer([answer_check], endless=True, **{"key": KEY, "models": ["gpt-5-mini"], **settings})


async def allow(host: str) -> None:
    """Allow every host."""


async def check(
    address: str, key: str | None = KEY, *, provider: str = "custom", model: str | None = None, **settings: Any
) -> CheckReport:
    """Check an endpoint."""
    known = find_provider(provider, {})
    limits = settings.pop("limits", LIMITS)
    return await EndpointCheck(known, address, key, settings.pop("guard", allow), limits).run(model)
