"""What the agent can do: its built-in tools, and the assembly of all it gets."""
