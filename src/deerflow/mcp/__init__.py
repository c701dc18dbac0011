"""Tools of MCP servers: who is connected, what they offer, and how they are called."""
