"""Errors that have a reader: the caller of an API, the person who wrote a configuration, or the model."""


class DeerFlowError(Exception):
    """Anything this project raises on purpose."""


class ConfigError(DeerFlowError):
    """The configuration is wrong; the text says where and what to write instead."""


class NotFound(DeerFlowError):
    """The thing asked for does not exist, or belongs to somebody else."""


class Forbidden(DeerFlowError):
    """Whoever asks may not do this; the text says who may."""


class Conflict(DeerFlowError):
    """The request does not fit the present state of the thing it names."""


class StateTooNew(Conflict):
    """What a thread holds was written by a newer version of this program, which has to be used to go on with it."""


class InvalidRequest(DeerFlowError):
    """The request cannot be understood."""


class TooLarge(DeerFlowError):
    """More was sent or asked for than is allowed; the text says how much that is."""


class TooSlow(DeerFlowError):
    """Whoever sends something has stopped sending."""


class ModelError(DeerFlowError):
    """A chat model did not answer as asked."""


class ModelRejected(ModelError):
    """The endpoint refused the request (credentials, unknown model, bad parameters)."""


class ModelRateLimited(ModelError):
    """The endpoint asked us to slow down."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ModelUnavailable(ModelError):
    """The endpoint could not be reached or failed on its side."""


class ModelTimeout(ModelUnavailable):
    """The endpoint stayed silent for too long."""


class ModelStreamCut(ModelUnavailable):
    """The answer ended before it was complete."""


class RunFailed(DeerFlowError):
    """A run ended without an answer."""


class RunLost(DeerFlowError):
    """Another process has taken the run over: this one must leave it alone."""


class StorageUnavailable(DeerFlowError):
    """The database cannot be used at the moment: it is locked, or its disk is full."""


class FileProblem(DeerFlowError):
    """A file cannot be had or written; the text tells the model what to try."""


class UnusableFile(FileProblem):
    """A file is there, but not one with which that can be done; the text says why."""


class SandboxError(DeerFlowError):
    """A sandbox cannot do what was asked; the text tells the model, or whoever runs the server, what to try."""


class SkillInvalid(DeerFlowError):
    """A skill cannot be used as it is written; the text says to a person what is wrong with it, and where."""


class SkillRefused(DeerFlowError):
    """A skill, or a change of one, is not accepted; the text says to a person why, and nothing was kept of it."""


class McpLoginFailed(DeerFlowError):
    """Nobody could be logged in at an MCP server; the text says why, and holds no secret."""
