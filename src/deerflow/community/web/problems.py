"""What can go wrong on the web; each text tells the model, or whoever runs the server, what to try."""

from langchain_core.tools import ToolException

from deerflow.domain.errors import DeerFlowError


class WebProblem(DeerFlowError, ToolException):
    """The web did not give what was asked for."""


class MissingKey(WebProblem):
    """A provider wants a key and there is none, or it takes another one."""


class RateLimited(WebProblem):
    """A provider or site asks to slow down, or its quota is used up."""


class TooSlow(WebProblem):
    """Nobody answered in time."""


class Unreachable(WebProblem):
    """There is nobody to talk to, or no trust in who it is."""


class NotAllowed(WebProblem):
    """The address may not be visited."""


class Rejected(WebProblem):
    """The provider or site answered, but not with what was asked for."""


class Unreadable(WebProblem):
    """What came is nothing a model could read."""


def explain(problem: ToolException) -> str:
    """What the model sees of a problem: its name and its text."""
    return f"Error: {type(problem).__name__}: {problem}"
