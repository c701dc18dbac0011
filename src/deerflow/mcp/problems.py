"""What can go wrong with an MCP server."""

from deerflow.domain.errors import DeerFlowError


class McpProblem(DeerFlowError):
    """A server cannot be reached, has ended, or does not keep to the protocol; the text says which and what to try."""
