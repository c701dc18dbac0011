"""Named errors, each written for a reader: the API caller, the author of a configuration file, or the model."""


class DeerFlowError(Exception):
    """Base class of all errors that this project raises on purpose."""


class ConfigError(DeerFlowError):
    """The configuration is invalid; the text says where and what to write instead."""


class NotFound(DeerFlowError):
    """The requested object does not exist or belongs to another user."""


class Forbidden(DeerFlowError):
    """The caller lacks permission; the text says who has it."""


class ReadOnlyAccess(Forbidden):
    """The object is shared with the caller for reading only."""


class Conflict(DeerFlowError):
    """The request conflicts with the current state of the object it names."""


class StateTooNew(Conflict):
    """The thread's state was written by a newer version of this program, which is needed to continue it."""


class InvalidRequest(DeerFlowError):
    """The request is malformed."""


class AddressRefused(InvalidRequest):
    """The address may not be used for model connections."""


class TooLarge(DeerFlowError):
    """The request or response exceeds a limit; the text says which."""


class TooSlow(DeerFlowError):
    """The client stopped sending data."""


class ModelError(DeerFlowError):
    """A model call failed."""

    status: int | None = None
    """HTTP status of the response, if there was one."""


class ModelRejected(ModelError):
    """The endpoint rejected the request (credentials, unknown model, invalid parameters)."""


class ModelKeyRejected(ModelRejected):
    """The endpoint rejected the API key, or the key has no access to the model."""


class ModelQuotaExceeded(ModelRejected):
    """The account has no quota or credit left; waiting does not help."""


class ModelNotFound(ModelRejected):
    """The endpoint has no model of this name."""


class ModelContextTooLong(ModelRejected):
    """The request is longer than the context window of the model."""


class ModelRateLimited(ModelError):
    """The endpoint returned a rate limit error."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ModelUnavailable(ModelError):
    """The endpoint could not be reached or failed on its side."""


class ModelTimeout(ModelUnavailable):
    """The endpoint did not respond in time."""


class ModelStreamCut(ModelUnavailable):
    """The response stream ended before it was complete."""


class ModelResponseTooLarge(ModelError):
    """The endpoint sent more than a response may have."""


class RunFailed(DeerFlowError):
    """A run ended without an answer."""


class EventRefused(RunFailed):
    """The database refused to record an event of the run, which therefore ended."""


class RunLost(DeerFlowError):
    """Another process has taken over the run; this process must not touch it any more."""


class StorageUnavailable(DeerFlowError):
    """The database cannot be used at the moment: it is locked, damaged or moved away."""


class StorageFull(StorageUnavailable):
    """The disk of the server is full."""


class FileProblem(DeerFlowError):
    """A file cannot be read or written; the text tells the model what to try."""


class UnusableFile(FileProblem):
    """The file exists but does not support the operation; the text says why."""


class PreviewUnavailable(UnusableFile):
    """No preview of the file can be made; the text says why."""


class PreviewNotReady(PreviewUnavailable):
    """Previews are not available yet, because the packages that make them are being installed."""


class EncryptedFile(PreviewUnavailable):
    """The file is protected with a password."""


class DamagedFile(PreviewUnavailable):
    """The file is damaged, or its content is not what its name says."""


class UnsafeFile(PreviewUnavailable):
    """The file has content that is made to attack programs that open it."""


class OversizedFile(PreviewUnavailable):
    """The file, or its preview, is too large."""


class SandboxError(DeerFlowError):
    """The sandbox cannot do what was requested; the text tells the model or the operator what to try."""


class SkillInvalid(DeerFlowError):
    """A skill cannot be parsed; the text tells a person what is wrong and where."""


class SkillRefused(DeerFlowError):
    """A skill, or a change of one, was rejected and not stored; the text tells a person why."""


class SkillUnavailable(DeerFlowError):
    """A skill cannot be downloaded; the text says why."""


class McpLoginFailed(DeerFlowError):
    """The login at an MCP server failed; the text says why and contains no secret."""


class Unauthorized(DeerFlowError):
    """The request needs a login, or its session or token is not valid."""


class LoginFailed(Unauthorized):
    """The e-mail address or the password is wrong; the text does not say which."""


class SignOnFailed(DeerFlowError):
    """The login at an OpenID provider failed; `reason` is for the page, the text says more and has no secret."""

    def __init__(self, message: str, reason: str = "failed") -> None:
        super().__init__(message)
        self.reason = reason


class TooManyAttempts(DeerFlowError):
    """There were too many attempts; the caller may try again after a time."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class QuotaExceeded(TooManyAttempts):
    """A limit of the person is reached; the text says which."""
