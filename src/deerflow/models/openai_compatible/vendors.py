"""Differences between OpenAI-compatible vendors: request fields and error formats. Limits of responses."""

import asyncio
import re
import reprlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import orjson

from deerflow.domain.errors import (
    ModelContextTooLong,
    ModelError,
    ModelKeyRejected,
    ModelNotFound,
    ModelQuotaExceeded,
    ModelRateLimited,
    ModelRejected,
    ModelResponseTooLarge,
    ModelUnavailable,
)

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


@dataclass(frozen=True, slots=True)
class Vendor:
    """The request fields that a vendor's endpoint accepts. The defaults suit lenient servers."""

    name: str
    hosts: tuple[str, ...] = ()
    sends_back_reasoning: Literal["never", "in tool turns", "always"] = "in tool turns"
    reasoning_field: str | None = None  # None: the name it was received under
    keeps_reasoning_details: bool = False
    keeps_call_extras: bool = False
    token_limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    takes_stream_options: bool = True  # False: rejects the field and reports usage anyway
    takes_json_schema: bool = False
    no_reasoning_with_tools: re.Pattern[str] | None = (
        None  # models that accept tools only with `reasoning_effort: none`
    )
    may_think_inline: bool = True  # `<think>…</think>` at the start of the answer

    def serves(self, host: str) -> bool:
        return any(host == known or host.endswith(f".{known}") for known in self.hosts)


# Strict endpoints reject unknown fields, so fields of other vendors must not be sent to them.
VENDORS: tuple[Vendor, ...] = (
    Vendor(
        "openai",
        hosts=("api.openai.com", "openai.azure.com", "services.ai.azure.com"),
        sends_back_reasoning="never",
        token_limit_field="max_completion_tokens",
        takes_json_schema=True,
        no_reasoning_with_tools=re.compile(r"gpt-(5\.[2-9]|[6-9])"),
        may_think_inline=False,
    ),
    Vendor("deepseek", hosts=("api.deepseek.com",), reasoning_field="reasoning_content"),
    Vendor(
        "moonshot",
        hosts=("api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"),
        sends_back_reasoning="always",  # a tool call without its reasoning is rejected, however old it is
        reasoning_field="reasoning_content",
        token_limit_field="max_completion_tokens",
        takes_json_schema=True,
    ),
    Vendor(
        "qwen", hosts=("dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com"), reasoning_field="reasoning_content"
    ),
    Vendor("volcengine", hosts=("volces.com", "bytepluses.com"), reasoning_field="reasoning_content"),
    Vendor(
        "zhipu",
        hosts=("open.bigmodel.cn", "api.z.ai"),
        reasoning_field="reasoning_content",
        takes_stream_options=False,
    ),
    Vendor("minimax", hosts=("api.minimax.io", "api.minimaxi.com"), keeps_reasoning_details=True),
    Vendor(
        "openrouter",
        hosts=("openrouter.ai",),
        sends_back_reasoning="always",
        reasoning_field="reasoning",
        keeps_reasoning_details=True,
        takes_json_schema=True,
    ),
    Vendor(
        "google",
        hosts=("generativelanguage.googleapis.com",),
        sends_back_reasoning="never",
        keeps_call_extras=True,  # a call without its thought signature is rejected
        takes_json_schema=True,
    ),
    Vendor(
        "mistral",
        hosts=("api.mistral.ai",),
        sends_back_reasoning="never",
        takes_stream_options=False,
        takes_json_schema=True,
    ),
    Vendor("groq", hosts=("api.groq.com",), sends_back_reasoning="never", token_limit_field="max_completion_tokens"),
    Vendor("xai", hosts=("api.x.ai",), sends_back_reasoning="never", takes_json_schema=True),
)
DEFAULT_VENDOR = Vendor("openai-compatible")
VENDOR_NAMES = frozenset(vendor.name for vendor in (*VENDORS, DEFAULT_VENDOR))


def find_vendor(base_url: str, name: str | None = None) -> Vendor:
    """Return the vendor called `name`, else the one of the host; `DEFAULT_VENDOR` for local and unknown servers."""
    host = urlsplit(base_url).hostname or ""
    for vendor in VENDORS:
        if vendor.name == name or (name is None and vendor.serves(host)):
            return vendor
    return DEFAULT_VENDOR


MAX_ERROR_CHARS = 1000
HTTP_STATUS = re.compile(r"[1-5][0-9][0-9]")
QUOTA_TEXTS = ("insufficient_quota", "exceeded your current quota", "credit balance is too low", "insufficient balance")
TOO_LONG_TEXTS = (
    "context_length_exceeded",
    "maximum context length",
    "prompt is too long",
    "exceeds the context window",
    "exceed context limit",
    "exceeds the available context size",
    "input token count",
    "input is too long",
)
KEY_TEXTS = ("invalid_api_key", "authentication_error", "incorrect api key", "api key not valid")
UNKNOWN_MODEL = re.compile(
    r"model_not_found|no such model|model\b.{0,80}(not found|does not exist|not exist|is not supported)"
)
REJECTION_TYPES = ("invalid", "authentication", "permission", "context_length", "not_found", "insufficient_quota")


def make_response_error(status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
    """Return the error for an HTTP response."""
    try:
        payload = orjson.loads(body)
    except orjson.JSONDecodeError:
        payload = None
    error = find_error(payload) or {"message": body.decode(errors="replace").strip()}
    return _make_status_error(status, error, parse_retry_after(headers))


def make_event_error(error: dict[str, Any]) -> ModelError:
    """Return the error for an `error` object in a stream."""
    code = _to_text(error.get("code"))
    if HTTP_STATUS.fullmatch(code):
        return _make_status_error(int(code), error, None)
    kind = f"{code} {_to_text(error.get('type'))}"
    if "rate_limit" in kind:
        return ModelRateLimited(f"rate limited by the model endpoint: {_format_error(error)}")
    if any(word in kind for word in REJECTION_TYPES):
        text = _format_error(error)
        return find_rejection(None, f"{kind} {text}")(f"the model endpoint rejected the request: {text}")
    return ModelUnavailable(f"the model endpoint failed during the answer: {_format_error(error)}")


def make_shape_error(name: str, value: object) -> ModelUnavailable:
    """Return the error for a field that is not in the format of the API."""
    return ModelUnavailable(f"the model endpoint returned invalid data in {name!r}: {reprlib.repr(value)}")


def find_error(payload: object) -> dict[str, Any] | None:
    """Return the error object in a payload, in any of the formats that vendors use."""
    if isinstance(payload, list) and payload:  # Google wraps it in a list
        payload = payload[0]
    if not isinstance(payload, dict):
        return None
    error = payload.get("error") or payload.get("detail")
    if error is None and (payload.get("object") == "error" or "choices" not in payload):
        error = payload if payload.get("message") else None
    if error is None or isinstance(error, dict):
        return error
    return {"message": _to_text(error)}


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait, from `Retry-After` (seconds or date) or OpenAI's `retry-after-ms`."""
    try:
        if milliseconds := headers.get("retry-after-ms"):
            return float(milliseconds) / 1000
        return _parse_seconds(headers.get("Retry-After", ""))
    except (ValueError, OverflowError):
        return None


def _parse_seconds(value: str) -> float | None:
    if not value:
        return None
    if value[0].isdigit():
        return float(value)
    at = parsedate_to_datetime(value)
    if at.tzinfo is None:  # the zone "-0000", which is UTC of an unknown place
        at = at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())


def _make_status_error(status: int, error: dict[str, Any], retry_after: float | None) -> ModelError:
    made = _choose_status_error(status, error, retry_after)
    made.status = status
    return made


def _choose_status_error(status: int, error: dict[str, Any], retry_after: float | None) -> ModelError:
    text = _format_error(error)
    rejection = find_rejection(status, f"{_to_text(error.get('code'))} {_to_text(error.get('type'))} {text}")
    # An exhausted quota is reported as 429 too, but retrying does not help.
    if status == 429 and rejection is not ModelQuotaExceeded:
        return ModelRateLimited(f"rate limited by the model endpoint (429): {text}", retry_after)
    if status >= 500 or status in (408, 409, 425):
        return ModelUnavailable(f"the model endpoint failed ({status}): {text}")
    return rejection(f"the model endpoint rejected the request ({status}): {text}")


def find_rejection(status: int | None, text: str) -> type[ModelRejected]:
    """Return the error for a rejected request, by its status and by the words that vendors use."""
    said = text.lower()
    if status == 402 or any(words in said for words in QUOTA_TEXTS):
        return ModelQuotaExceeded
    if any(words in said for words in TOO_LONG_TEXTS):
        return ModelContextTooLong
    if status in (401, 403) or any(words in said for words in KEY_TEXTS):
        return ModelKeyRejected
    if status == 404 or UNKNOWN_MODEL.search(said):
        return ModelNotFound
    return ModelRejected


def _format_error(error: dict[str, Any]) -> str:
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None  # OpenRouter: the message of the upstream vendor
    parts = [_to_text(part) for part in (error.get("message"), raw) if part]
    return ": ".join(parts)[:MAX_ERROR_CHARS] or "no explanation given"


def _to_text(value: object) -> str:
    """Return a value of any type as text."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:  # nested too deeply
        return reprlib.repr(value)


MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Maximum size of an event of a stream, and of a response that is not streamed."""
MAX_RESPONSE_BYTES = 128 * 1024 * 1024
"""Maximum size of a streamed response. A million tokens take about 64 MB, each with its event."""
EVENT_ENDS = (b"\n\n", b"\r\r", b"\n\r\n")


class ResponseMeter:
    """Counts the bytes of one response, and of each event if it is a stream."""

    __slots__ = ("_event", "_has_events", "_tail", "_total")

    def __init__(self, *, has_events: bool = True) -> None:
        self._has_events = has_events
        self._total = 0
        self._event = 0  # bytes since the last blank line
        self._tail = b""

    def add(self, received: bytes) -> None:
        """Count received bytes.

        Raises:
            ModelResponseTooLarge: The response, or an event of it, is too large.
        """
        self._total += len(received)
        window = self._tail + received
        end = max(window.rfind(each) for each in EVENT_ENDS) if self._has_events else -1
        self._event = len(window) - end if end >= 0 else self._event + len(received)
        self._tail = window[-2:]
        if self._event > MAX_EVENT_BYTES:
            raise ModelResponseTooLarge(
                f"the model endpoint sent more than {MAX_EVENT_BYTES // 1024**2} MB without completing an event"
            )
        if self._total > MAX_RESPONSE_BYTES:
            raise ModelResponseTooLarge(
                f"the model endpoint sent more than {MAX_RESPONSE_BYTES // 1024**2} MB in one response"
            )


MAX_BYTES_AT_ONCE = 1024 * 1024
"""Bytes after which others may use the event loop."""


def limit_responses(model: "BaseChatModel") -> None:
    """Limit the size of the responses that an OpenAI SDK reads: it collects a line until it ends.

    The SDK shares HTTP clients between models, so a client may be limited already.
    """
    for name, hook in (("root_client", _limit_sync), ("root_async_client", _limit_async)):
        client = getattr(getattr(model, name, None), "_client", None)
        hooks = getattr(client, "event_hooks", {}).get("response")
        if isinstance(hooks, list) and hook not in hooks:
            hooks.append(hook)


async def _limit_async(response: Any) -> None:
    """Raise an error while a response is read if it is too large. A hook of the HTTP client."""
    read = response.aiter_bytes

    async def aiter_bytes(chunk_size: int | None = None) -> AsyncIterator[bytes]:
        meter, taken = _create_meter(response), 0
        async with aclosing(read(chunk_size)) as parts:
            async for part in parts:
                meter.add(part)
                taken += len(part)
                if taken > MAX_BYTES_AT_ONCE:  # a few kilobytes expand to many megabytes without a wait
                    taken = 0
                    await asyncio.sleep(0)
                yield part

    response.aiter_bytes = aiter_bytes


def _limit_sync(response: Any) -> None:
    """Raise an error while a response is read if it is too large. A hook of the HTTP client."""
    read = response.iter_bytes

    def iter_bytes(chunk_size: int | None = None) -> Iterator[bytes]:
        meter = _create_meter(response)
        with closing(read(chunk_size)) as parts:
            for part in parts:
                meter.add(part)
                yield part

    response.iter_bytes = iter_bytes


def _create_meter(response: Any) -> ResponseMeter:
    return ResponseMeter(has_events=not response.headers.get("Content-Type", "").startswith("application/json"))
