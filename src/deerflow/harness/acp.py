"""Agents of others: who starts them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from deerflow.acp.desk import AcpDesk, Surroundings
from deerflow.config.source import ConfigSource
from deerflow.domain.errors import SandboxError
from deerflow.sandbox.sandbox_provider import SandboxProvider
from deerflow.sandbox.services import RunsServices, Service, ServiceOrder


@asynccontextmanager
async def open_acp(source: ConfigSource, sandboxes: SandboxProvider) -> AsyncIterator[AcpDesk]:
    """Where work is given to agents of others; what is under way ends with it."""

    async def start(order: ServiceOrder) -> Service:
        if not isinstance(sandboxes, RunsServices):
            raise SandboxError("the configured provider of sandboxes cannot run other agents; use the local one")
        return await sandboxes.start_service(order)

    desk = AcpDesk(
        Surroundings(
            source.current.home,
            lambda: source.refresh().config.acp_agents,
            lambda: source.refresh().extensions.mcp_servers,
            start,
            source.hide,
        )
    )
    try:
        yield desk
    finally:
        await desk.aclose()
