"""MCP server: a program that offers a tool over standard input and output. `mcp_tools.py` uses it."""

from mcp.server.fastmcp import FastMCP

server = FastMCP("weather")


@server.tool()
def forecast(city: str) -> str:
    """Return the weather forecast of a city."""
    return f"Rain in {city}"


if __name__ == "__main__":
    server.run()
