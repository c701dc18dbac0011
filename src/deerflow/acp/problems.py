"""What goes wrong with agents of others."""

from deerflow.domain.errors import DeerFlowError


class AcpProblem(DeerFlowError):
    """An agent does not do what was asked of it; the text tells the model why, and what to try."""
