"""Classification of model failures across client libraries."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from langchain_core.messages import AIMessage

from deerflow.domain.errors import (
    ModelContextTooLong,
    ModelError,
    ModelKeyRejected,
    ModelNotFound,
    ModelQuotaExceeded,
    ModelRateLimited,
    ModelRejected,
    ModelStreamCut,
    ModelTimeout,
    ModelUnavailable,
)
from deerflow.models.factory import ENTRY_KEY
from deerflow.models.openai_compatible.vendors import find_rejection, parse_retry_after

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

FailureReason: TypeAlias = Literal[
    "rate_limited",
    "unavailable",
    "timeout",
    "stream_cut",
    "quota",
    "auth",
    "unknown_model",
    "too_long",
    "rejected",
]

TRANSIENT = frozenset({"rate_limited", "unavailable", "timeout", "stream_cut"})
OWN_ERRORS: Mapping[type[ModelError], FailureReason] = {  # most specific first
    ModelRateLimited: "rate_limited",
    ModelTimeout: "timeout",
    ModelStreamCut: "stream_cut",
    ModelUnavailable: "unavailable",
    ModelQuotaExceeded: "quota",
    ModelKeyRejected: "auth",
    ModelNotFound: "unknown_model",
    ModelContextTooLong: "too_long",
    ModelRejected: "rejected",
    ModelError: "rejected",
}
ERROR_NAMES: Mapping[str, FailureReason] = {  # classes of openai, anthropic, httpx, aiohttp, LangChain and Python
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
    "RequestError": "unavailable",
    "ClientConnectionError": "unavailable",
    "ConnectionError": "unavailable",
    "APIError": "unavailable",
}
RETRYABLE_STATUSES = frozenset({408, 409, 425})


@dataclass(frozen=True, slots=True)
class ModelFailure:
    """Reason of a failed model call, and the wait the endpoint asked for."""

    reason: FailureReason
    text: str
    retry_after_s: float | None = None

    @property
    def is_transient(self) -> bool:
        """Return whether the same request may succeed later."""
        return self.reason in TRANSIENT

    def to_error(self) -> ModelError:
        """Return the failure as one of our errors."""
        if self.reason == "rate_limited":
            return ModelRateLimited(self.text, self.retry_after_s)
        kinds = {reason: kind for kind, reason in OWN_ERRORS.items() if kind is not ModelError}
        return kinds[self.reason](self.text)


def classify_failure(error: Exception) -> ModelFailure | None:
    """Return the model failure `error` stands for; None when it is something else, such as a bug."""
    text = str(error) or type(error).__name__
    if isinstance(error, ModelError):
        reason = next(reason for kind, reason in OWN_ERRORS.items() if isinstance(error, kind))
        return ModelFailure(reason, text, getattr(error, "retry_after_s", None))
    status = _find_status(error)
    if status is not None:
        return ModelFailure(_reason_for_status(status, text), text, parse_retry_after(_find_headers(error)))
    names = (kind.__name__ for kind in type(error).__mro__)
    named = next((ERROR_NAMES[name] for name in names if name in ERROR_NAMES), None)
    if named is None:
        return None
    return ModelFailure("quota" if find_rejection(None, text) is ModelQuotaExceeded else named, text)


def _find_status(error: Exception) -> int | None:
    status = getattr(error, "status_code", None) or getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def _find_headers(error: Exception) -> Mapping[str, str]:
    headers = getattr(getattr(error, "response", None), "headers", None)
    return headers if isinstance(headers, Mapping) else {}


def _reason_for_status(status: int, text: str) -> FailureReason:
    # An error within a stream carries the status of the response, which was successful.
    if status >= 500 or status < 400 or status in RETRYABLE_STATUSES:
        return "unavailable"
    reason = OWN_ERRORS[find_rejection(status, text)]
    # An exhausted quota is reported as 429 too, but retrying does not help.
    return "rate_limited" if status == 429 and reason != "quota" else reason


def get_model_name(model: "BaseChatModel", message: AIMessage | None) -> str:
    """Return the configured name of `model`; for a model that is not configured, the name it reports."""
    entry = (model.metadata or {}).get(ENTRY_KEY)
    reported = message.response_metadata.get("model_name") if message is not None else None
    return str(entry or reported or getattr(model, "model_name", None) or model._llm_type)
