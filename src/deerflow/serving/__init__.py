"""The agent for other programs: over ACP for editors, over MCP for everything that uses tools."""
