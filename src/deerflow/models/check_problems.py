"""Problems that the check of a model endpoint finds: each has a code, a sentence and a remedy."""

import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

import aiohttp

from deerflow.domain.errors import ConfigError, ModelError, ModelTimeout

ProblemCode = Literal[
    "bad_key",
    "no_credit",
    "wrong_host",
    "missing_v1",
    "unknown_model",
    "tls",
    "dns",
    "timeout",
    "rate_limited",
    "region",
    "no_tools",
    "no_streaming",
    "no_usage",
    "no_listing",
    "blocked_address",
    "invalid_address",
    "not_installed",
    "server_error",
    "bad_response",
    "rejected",
]
Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class ProblemText:
    """Sentence and remedy of a problem; `{host}`, `{model}` and `{command}` are replaced."""

    severity: Severity
    message: str
    remedy: str


TEXTS: Mapping[ProblemCode, ProblemText] = MappingProxyType(
    {
        "bad_key": ProblemText(
            "error", "{host} refused the key.", "Copy the whole key again, or create a new one at the provider."
        ),
        "no_credit": ProblemText(
            "error",
            "The account at {host} has no credit left.",
            "Add credit or a payment method at the provider, then check again.",
        ),
        "wrong_host": ProblemText(
            "error",
            "No model API answers at {host}.",
            "Check the address and the port. For a local server, make sure that it is running.",
        ),
        "missing_v1": ProblemText(
            "note", "The address had no /v1, so it was added.", "Nothing to do: the corrected address is saved."
        ),
        "unknown_model": ProblemText(
            "error",
            "{host} has no model named {model}, or the key has no access to it.",
            "Choose a model from the list, or check the spelling.",
        ),
        "tls": ProblemText(
            "error",
            "The certificate of {host} could not be verified.",
            "Use the host name in the certificate, set SSL_CERT_FILE for a private authority, or use http:// for a "
            "local server.",
        ),
        "dns": ProblemText(
            "error", "The host {host} was not found.", "Check the spelling of the address, and your connection."
        ),
        "timeout": ProblemText(
            "error",
            "{host} did not answer in time.",
            "Try again. If it stays like this, check the address, a proxy or a firewall.",
        ),
        "rate_limited": ProblemText(
            "error", "{host} is limiting requests at the moment.", "Wait a minute, then check again."
        ),
        "region": ProblemText(
            "error",
            "{host} does not serve your country or region.",
            "Use another provider, or an address of this provider for your region.",
        ),
        "no_tools": ProblemText(
            "warning",
            "{model} did not call a tool.",
            "Agents need tool calls. Choose another model; on vLLM, start the server with --enable-auto-tool-choice.",
        ),
        "no_streaming": ProblemText(
            "warning",
            "{model} does not stream its answers.",
            "You can use it. Answers appear all at once when they are complete.",
        ),
        "no_usage": ProblemText(
            "note", "{model} does not report token counts.", "You can use it. Usage and costs stay unknown."
        ),
        "no_listing": ProblemText(
            "warning", "{host} does not list its models.", "Enter the name of a model, then check again."
        ),
        "blocked_address": ProblemText(
            "error",
            "{host} is an address that model connections may not use.",
            "Use the address of a model API on the internet or in your own network.",
        ),
        "invalid_address": ProblemText(
            "error", "This is not an address.", "Write it like https://api.example.com/v1, without a user name."
        ),
        "not_installed": ProblemText(
            "error",
            "The package for this provider is not installed.",
            "Run {command} in the environment of DeerFlow, then restart it.",
        ),
        "server_error": ProblemText(
            "error", "{host} has an internal problem.", "Try again later, or look at the status page of the provider."
        ),
        "bad_response": ProblemText(
            "error",
            "{host} answered in a format that is not that of a model API.",
            "Check the address. It must be that of an OpenAI-compatible API.",
        ),
        "rejected": ProblemText(
            "error", "{host} rejected the request.", "Read the answer of the provider below, or choose another model."
        ),
    }
)


@dataclass(frozen=True, slots=True)
class CheckProblem:
    """Problem with its texts filled in; `detail` is what the provider answered, without the key."""

    code: ProblemCode
    severity: Severity
    message: str
    remedy: str
    detail: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    """Host, model and command that the texts mention."""


def make_problem(
    code: ProblemCode, *, host: str = "", model: str = "", command: str = "", detail: str | None = None
) -> CheckProblem:
    """Return a problem with its texts filled in."""
    text, values = TEXTS[code], {"host": host, "model": model, "command": command}
    message, remedy = text.message.format(**values), text.remedy.format(**values)
    return CheckProblem(code, text.severity, message, remedy, detail or None, values)


NO_CREDIT = re.compile(r"insufficient[ _](quota|balance|credit|funds)|credit balance|exceeded your current quota|"
                       r"billing|payment required|arrear|out of credit|欠费|余额", re.IGNORECASE)  # fmt: skip
REGION = re.compile(r"unsupported_country|country|region|territory|location is not supported|not available in your",
                    re.IGNORECASE)  # fmt: skip
BAD_KEY = re.compile(r"api[ _-]?key|unauthori[sz]ed|authentication|invalid.*(token|credential)|x-api-key",
                     re.IGNORECASE)  # fmt: skip
UNKNOWN_MODEL = re.compile(
    r"model[_ ]not[_ ](found|exist)|\bmodel\b.{0,120}(not found|does ?n.t exist|not exist|no such|unknown|"
    r"not available|not supported for|is not a valid)|(unknown|invalid|no such|not a valid) model",
    re.IGNORECASE | re.DOTALL,
)
NO_TOOLS = re.compile(r"\b(tools?|tool_choice|tool[ _-]?calls?|functions?)\b.{0,80}(support|enabl|implement|allow|"
                      r"require)|(support|enabl).{0,40}\b(tools?|functions?)\b", re.IGNORECASE | re.DOTALL)  # fmt: skip
NO_STREAMING = re.compile(r"\bstream(ing)?\b.{0,60}(support|implement|allow|availab)|(support|allow).{0,30}\bstream",
                          re.IGNORECASE | re.DOTALL)  # fmt: skip
STATUS_CODES: Mapping[int, ProblemCode] = MappingProxyType(
    {401: "bad_key", 402: "no_credit", 403: "bad_key", 408: "timeout", 429: "rate_limited", 451: "region"}
)
MEANINGS: tuple[tuple[re.Pattern[str], ProblemCode, tuple[int, ...]], ...] = (
    (REGION, "region", (400, 403, 451)),
    (NO_CREDIT, "no_credit", (400, 402, 403, 429)),
    (UNKNOWN_MODEL, "unknown_model", (400, 403, 404, 422)),
    (NO_TOOLS, "no_tools", (400, 404, 422, 500, 501)),
    (NO_STREAMING, "no_streaming", (400, 404, 405, 422, 500, 501)),
    (BAD_KEY, "bad_key", (400, 401, 403)),
)
"""Meanings of error texts, each with the statuses for which they are read, in this order."""


def classify_status(status: int, text: str) -> ProblemCode:
    """Return the problem that a response with an error status reports."""
    for pattern, code, statuses in MEANINGS:
        if status in statuses and pattern.search(text):
            return code
    if status in STATUS_CODES:
        return STATUS_CODES[status]
    if status >= 500:
        return "server_error"
    return "wrong_host" if status in (404, 405) or status < 400 else "rejected"


def classify_error(error: BaseException) -> ProblemCode:
    """Return the problem that an error of a model or of an HTTP library reports."""
    chain = list(walk_causes(error))
    for each in chain:
        if code := classify_connection_error(each):
            return code
    text = " ".join(str(each) for each in chain)
    if status := find_status(chain):
        return classify_status(status, text)
    for pattern, code, _ in MEANINGS:
        if pattern.search(text):
            return code
    if isinstance(error, ConfigError):
        return "rejected"
    return "bad_response" if isinstance(error, ModelError) else "server_error"


def walk_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those that led to it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def find_status(chain: list[BaseException]) -> int | None:
    """Return the HTTP status of an error, by any of the names that SDKs use."""
    for error in chain:
        for name in ("status", "status_code", "code"):
            value = getattr(error, name, None)
            if isinstance(value, int) and 300 <= value < 600:
                return value
    return None


DNS_TEXT = re.compile(r"name or service not known|name resolution|nodename nor servname|no address associated|"
                      r"getaddrinfo failed", re.IGNORECASE)  # fmt: skip
TLS_TEXT = re.compile(r"certificate verify failed|CERTIFICATE_VERIFY|WRONG_VERSION_NUMBER|\[SSL")


def classify_connection_error(error: BaseException) -> ProblemCode | None:
    """Return the problem if an error is one of the connection."""
    text = str(error)
    if isinstance(error, (ssl.SSLError, aiohttp.ClientSSLError)) or TLS_TEXT.search(text):
        return "tls"
    if isinstance(error, aiohttp.ClientConnectorDNSError) or DNS_TEXT.search(text):
        return "dns"
    if (
        isinstance(error, (TimeoutError, ModelTimeout, aiohttp.ConnectionTimeoutError))
        or "Timeout" in type(error).__name__
    ):
        return "timeout"
    if isinstance(error, (ConnectionError, aiohttp.ClientConnectionError)):
        return "wrong_host"
    return "bad_response" if isinstance(error, aiohttp.ClientPayloadError) else None
