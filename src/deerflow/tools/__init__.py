"""Assembly of an agent's tools, and the built-in tools."""
