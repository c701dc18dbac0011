"""Which MCP servers an agent of somebody else's is told of."""

from collections.abc import Iterator, Mapping

from acp.schema import EnvVariable, HttpHeader, HttpMcpServer, McpCapabilities, McpServerStdio, SseMcpServer

from deerflow.config.acp_agents import AcpAgentConfig
from deerflow.config.extensions import McpServerConfig

AnyServer = HttpMcpServer | SseMcpServer | McpServerStdio


def passed_on(
    agent: AcpAgentConfig, servers: Mapping[str, McpServerConfig], can: McpCapabilities | None
) -> list[AnyServer]:
    """The servers that are switched on and can be used by the agent.

    Those that want a login are left out: the tokens for them belong to people, not to agents.
    """
    wanted = (
        (name, server)
        for name, server in servers.items()
        if server.enabled and server.oauth is None and (agent.mcp_servers is None or name in agent.mcp_servers)
    )
    return [shown for name, server in wanted for shown in in_words_of_acp(name, server, can or McpCapabilities())]


def in_words_of_acp(name: str, server: McpServerConfig, can: McpCapabilities) -> Iterator[AnyServer]:
    """One server, if the agent can reach its kind."""
    headers = [HttpHeader(name=key, value=value) for key, value in server.headers.items()]
    if server.type == "stdio" and server.command:
        env = [EnvVariable(name=key, value=value) for key, value in server.env.items()]
        yield McpServerStdio(name=name, command=server.command, args=list(server.args), env=env)
    elif server.type == "http" and server.url and can.http:
        yield HttpMcpServer(type="http", name=name, url=server.url, headers=headers)
    elif server.type == "sse" and server.url and can.sse:
        yield SseMcpServer(type="sse", name=name, url=server.url, headers=headers)
