"""What went wrong at an endpoint, by name."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import orjson

from deerflow.domain.errors import ModelError, ModelRateLimited, ModelRejected, ModelUnavailable

MAX_CHARS = 1000
REJECTING_WORDS = ("invalid", "authentication", "permission", "context_length", "not_found", "insufficient_quota")


def failed_response(status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
    """The error an HTTP response stands for."""
    try:
        payload = orjson.loads(body)
    except orjson.JSONDecodeError:
        payload = None
    error = error_in(payload) or {"message": body.decode(errors="replace").strip()}
    return _by_status(status, error, retry_after_s(headers))


def failed_event(error: dict[str, Any]) -> ModelError:
    """The error that an `error` object inside a stream stands for."""
    code = str(error.get("code") or "")
    if code.isdigit():
        return _by_status(int(code), error, None)
    kind = f"{code} {error.get('type')}"
    if "rate_limit" in kind:
        return ModelRateLimited(f"the model endpoint asks to slow down: {_text(error)}")
    if any(word in kind for word in REJECTING_WORDS):
        return ModelRejected(f"the model endpoint refused the request: {_text(error)}")
    return ModelUnavailable(f"the model endpoint failed while it answered: {_text(error)}")


def error_in(payload: object) -> dict[str, Any] | None:
    """The error object in a payload, in the shapes vendors give it."""
    if isinstance(payload, list) and payload:  # Google wraps it in a list
        payload = payload[0]
    if not isinstance(payload, dict):
        return None
    error = payload.get("error") or payload.get("detail")
    if error is None and (payload.get("object") == "error" or "choices" not in payload):
        error = payload if payload.get("message") else None
    if error is None or isinstance(error, dict):
        return error
    return {"message": error if isinstance(error, str) else orjson.dumps(error).decode()}


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """How long to wait, from `Retry-After` in seconds or as a date, or from OpenAI's `retry-after-ms`."""
    try:
        if milliseconds := headers.get("retry-after-ms"):
            return float(milliseconds) / 1000
        return _seconds(headers.get("Retry-After", ""))
    except ValueError:
        return None


def _seconds(value: str) -> float | None:
    if not value:
        return None
    if value[0].isdigit():
        return float(value)
    at = parsedate_to_datetime(value)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())


def _by_status(status: int, error: dict[str, Any], retry_after: float | None) -> ModelError:
    text = _text(error)
    # An empty account is reported as 429 too, but waiting does not fill it.
    if status == 429 and error.get("code") != "insufficient_quota":
        return ModelRateLimited(f"the model endpoint asks to slow down (429): {text}", retry_after)
    if status >= 500 or status in (408, 409, 425):
        return ModelUnavailable(f"the model endpoint failed ({status}): {text}")
    return ModelRejected(f"the model endpoint refused the request ({status}): {text}")


def _text(error: dict[str, Any]) -> str:
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None  # OpenRouter: the words of the vendor behind it
    parts = [str(part) for part in (error.get("message"), raw) if part]
    return ": ".join(parts)[:MAX_CHARS] or "no explanation given"
