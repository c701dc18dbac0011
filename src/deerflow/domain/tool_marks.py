"""What the metadata of a tool says about where it comes from and what it brings in."""

SOURCE, SERVER = "source", "server"
FROM_MCP = "mcp"
"""The source of a tool that an MCP server offers, under whose name it is listed."""
CONFIGURED = "configured"
"""The source of a tool that somebody has written for this installation."""
UNTRUSTED = "untrusted"
"""Set where a tool returns words of strangers."""
