"""Client of external agents that speak the Agent Client Protocol."""

from deerflow.domain.errors import DeerFlowError


class AcpError(DeerFlowError):
    """An external agent cannot do its task; the text tells the model why, and what to try."""
