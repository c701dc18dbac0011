"""Protocol servers of the agent: ACP for editors, MCP for other programs."""
