"""Why a model did not answer, whichever library says so and in whatever words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from deerflow.domain.errors import (
    ModelError,
    ModelRateLimited,
    ModelRejected,
    ModelStreamCut,
    ModelTimeout,
    ModelUnavailable,
)
from deerflow.models.failures import retry_after_s

Reason: TypeAlias = Literal["rate_limited", "unavailable", "timeout", "stream_cut", "quota", "auth", "rejected"]

PASSING = frozenset({"rate_limited", "unavailable", "timeout", "stream_cut"})
OWN_ERRORS: Mapping[type[ModelError], Reason] = {  # the more special first
    ModelRateLimited: "rate_limited",
    ModelTimeout: "timeout",
    ModelStreamCut: "stream_cut",
    ModelUnavailable: "unavailable",
    ModelRejected: "rejected",
    ModelError: "rejected",
}
ERROR_NAMES: Mapping[str, Reason] = {  # classes of openai, anthropic, httpx, aiohttp, LangChain and Python
    "APITimeoutError": "timeout",
    "TimeoutException": "timeout",
    "ModelTimeoutError": "timeout",
    "TimeoutError": "timeout",
    "RemoteProtocolError": "stream_cut",
    "ClientPayloadError": "stream_cut",
    "IncompleteReadError": "stream_cut",
    "APIConnectionError": "unavailable",
    "ModelConnectionError": "unavailable",
    "TransportError": "unavailable",
    "ClientConnectionError": "unavailable",
    "ConnectionError": "unavailable",
    "APIError": "unavailable",
}
QUOTA_WORDS = ("insufficient_quota", "exceeded your current quota", "credit balance is too low")
TRY_AGAIN_STATUSES = frozenset({408, 409, 425})


@dataclass(frozen=True, slots=True)
class ModelFailure:
    """Why a model did not answer, and how long it asked us to wait."""

    reason: Reason
    text: str
    retry_after_s: float | None = None

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed a little later."""
        return self.reason in PASSING

    def to_error(self) -> ModelError:
        """The same as an error of ours, which has a reader."""
        if self.reason == "rate_limited":
            return ModelRateLimited(self.text, self.retry_after_s)
        if self.reason == "timeout":
            return ModelTimeout(self.text)
        if self.reason == "stream_cut":
            return ModelStreamCut(self.text)
        return ModelUnavailable(self.text) if self.reason == "unavailable" else ModelRejected(self.text)


def recognise(error: Exception) -> ModelFailure | None:
    """What `error` says about the model; None when it is about something else, such as a bug."""
    text = str(error) or type(error).__name__
    if isinstance(error, ModelError):
        reason = next(reason for kind, reason in OWN_ERRORS.items() if isinstance(error, kind))
        return ModelFailure(reason, text, getattr(error, "retry_after_s", None))
    status = _status(error)
    if status is not None:
        return ModelFailure(_by_status(status, text), text, retry_after_s(_headers(error)))
    names = (kind.__name__ for kind in type(error).__mro__)
    named = next((ERROR_NAMES[name] for name in names if name in ERROR_NAMES), None)
    if named is None:
        return None
    return ModelFailure("quota" if _is_about_quota(text) else named, text)


def _status(error: Exception) -> int | None:
    status = getattr(error, "status_code", None) or getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def _headers(error: Exception) -> Mapping[str, str]:
    headers = getattr(getattr(error, "response", None), "headers", None)
    return headers if isinstance(headers, Mapping) else {}


def _by_status(status: int, text: str) -> Reason:
    # An empty account is reported as 429 or 400 too, but waiting does not fill it.
    if status == 402 or (status in (400, 403, 429) and _is_about_quota(text)):
        return "quota"
    if status == 429:
        return "rate_limited"
    if status in (401, 403):
        return "auth"
    # An error inside a stream that had begun well carries the status of the beginning.
    return "unavailable" if status >= 500 or status < 400 or status in TRY_AGAIN_STATUSES else "rejected"


def _is_about_quota(text: str) -> bool:
    return any(word in text for word in QUOTA_WORDS)
