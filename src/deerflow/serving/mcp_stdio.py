"""`deerflow mcp`: the agent as an MCP server on standard input and output."""

import os
from io import TextIOWrapper

import anyio
from mcp.server.stdio import stdio_server

from deerflow.config.source import ConfigSource
from deerflow.domain.principal import LOCAL_USER
from deerflow.harness import open_harness
from deerflow.serving.mcp_server import mcp_server
from deerflow.serving.standard_streams import claim_output
from deerflow.serving.turns import stop_all


async def serve_mcp(source: ConfigSource) -> None:
    """Serve the local person until the program at the other end closes the pipe."""
    output = anyio.wrap_file(TextIOWrapper(os.fdopen(claim_output(), "wb"), encoding="utf-8"))
    async with open_harness(source) as harness, stdio_server(stdout=output) as (incoming, outgoing):
        server = mcp_server(harness, LOCAL_USER)
        await server.run(incoming, outgoing, server.create_initialization_options())
        await stop_all(harness)
