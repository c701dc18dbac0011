"""Connections and sessions with MCP servers."""
