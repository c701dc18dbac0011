"""HTTP client of the web tools: bounded requests, JSON APIs of providers, and named errors."""

import asyncio
import ssl
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

import httpx
from langchain_core.tools import ToolException
from pydantic import BaseModel, BeforeValidator, SecretStr, ValidationError

from deerflow.domain.errors import DeerFlowError
from deerflow.sandbox.egress import EgressFailed, EgressRefused


class WebProblem(DeerFlowError, ToolException):
    """A web request failed."""

    label: str | None = None
    """Name shown to the model and stored, if it is not the class name."""


class MissingKey(WebProblem):
    """A provider needs an API key, and it is missing or rejected."""


class WebRateLimited(WebProblem):
    """A provider or site limits requests, or the quota is used up."""

    label = "RateLimited"


class WebTimeout(WebProblem):
    """The request timed out."""

    label = "TooSlow"


class Unreachable(WebProblem):
    """The host cannot be reached, or its certificate is not trusted."""


class NotAllowed(WebProblem):
    """The address is not allowed."""


class Rejected(WebProblem):
    """The provider or site answered with an error."""


class Unreadable(WebProblem):
    """The content cannot be converted to text."""


def format_error(problem: ToolException) -> str:
    """Return the error text for the model: label and message."""
    label = problem.label if isinstance(problem, WebProblem) else None
    return f"Error: {label or type(problem).__name__}: {problem}"


ENCODINGS = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}


@dataclass(frozen=True, slots=True)
class WebRequest:
    """An HTTP request."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str | int] = field(default_factory=dict)
    json: object = None
    form: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class WebResponse:
    """An HTTP response with its decoded body, which may be cut."""

    url: str
    status: int
    headers: httpx.Headers
    body: bytes
    is_truncated: bool


class TlsTrust:
    """SSL context, loaded once in a thread because that takes a while."""

    def __init__(self) -> None:
        self._context: ssl.SSLContext | None = None

    async def context(self) -> ssl.SSLContext:
        """Return the SSL context."""
        if self._context is None:
            self._context = await asyncio.to_thread(httpx.create_ssl_context)
        return self._context


@dataclass(frozen=True, slots=True)
class HttpClient:
    """HTTP client with limits on time and size, whose transport goes through `Egress`."""

    timeout_s: float
    max_bytes: int
    transport: httpx.AsyncBaseTransport
    trust: TlsTrust = field(default_factory=TlsTrust)
    size_limits: Mapping[str, int] = field(default_factory=dict)
    """Size limits by content type, where they differ from `max_bytes`."""

    async def send(self, request: WebRequest) -> WebResponse:
        """Send a request and return the response.

        Raises:
            TooSlow: The response was not complete in time.
            NotAllowed: The address is not allowed.
            Unreachable: The host does not answer, or is not trusted.
            Unreadable: The content encoding is not supported.
        """
        host = parse_host(request.url)
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self._send(request)
        except (TimeoutError, httpx.TimeoutException):
            raise WebTimeout(f"{host} did not answer within {self.timeout_s:g} s; try another page, or later") from None
        except EgressRefused as refused:
            raise NotAllowed(str(refused)) from refused
        except ssl.SSLError as problem:
            raise Unreachable(f"{host} cannot be trusted: {problem}") from problem
        except (httpx.TransportError, EgressFailed, OSError) as problem:
            raise Unreachable(f"{host} cannot be reached: {problem or type(problem).__name__}") from problem

    async def _send(self, request: WebRequest) -> WebResponse:
        trust = await self.trust.context()
        headers = {"Accept-Encoding": "gzip, deflate", **request.headers}
        async with (
            httpx.AsyncClient(transport=self.transport, verify=trust, timeout=self.timeout_s) as client,
            client.stream(
                request.method,
                request.url,
                headers=headers,
                params=request.params or None,
                json=request.json,
                data=request.form,
            ) as response,
        ):
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            limit = self.size_limits.get(kind, self.max_bytes)
            body = BoundedDecoder(response.headers.get("content-encoding", ""), limit)
            async for chunk in response.aiter_raw():
                body.add(chunk)
                if body.is_full:
                    break
            return WebResponse(str(response.url), response.status_code, response.headers, body.content, body.is_full)


class BoundedDecoder:
    """Decoder of a compressed body up to a limit, so that a zip bomb is never unpacked as a whole."""

    def __init__(self, encoding: str, limit: int) -> None:
        self._encoding = encoding.strip().lower()
        if self._encoding not in ("", "identity", *ENCODINGS):
            raise Unreadable(f"unsupported content encoding {self._encoding!r}")
        self._limit = limit
        self._inflater = zlib.decompressobj(ENCODINGS[self._encoding]) if self._encoding in ENCODINGS else None
        self._content = bytearray()
        self._is_complete = False

    @property
    def content(self) -> bytes:
        return bytes(self._content[: self._limit])

    @property
    def is_full(self) -> bool:
        return len(self._content) > self._limit

    def add(self, chunk: bytes) -> None:
        """Add a chunk."""
        if self._inflater is None:
            self._content += chunk[: self._remaining]
            return
        while chunk and not self.is_full:
            chunk = self._inflate(chunk)

    @property
    def _remaining(self) -> int:
        return self._limit + 1 - len(self._content)

    def _inflate(self, chunk: bytes) -> bytes:
        """Decompress a chunk; return the part that belongs to the next compressed stream."""
        assert self._inflater is not None
        try:
            self._content += self._inflater.decompress(chunk, self._remaining)
        except zlib.error as problem:
            if self._is_complete:  # data after a stream need not be another stream
                return b""
            if self._encoding != "deflate" or self._content or self._inflater.eof:
                raise Unreadable(f"the response is damaged: {problem}") from problem
            # Some servers omit the zlib header.
            self._encoding, self._inflater = "raw", zlib.decompressobj(-zlib.MAX_WBITS)
            return chunk
        rest = self._inflater.unused_data
        if rest:
            self._is_complete = True
            self._inflater = zlib.decompressobj(ENCODINGS.get(self._encoding, -zlib.MAX_WBITS))
        return rest


def parse_host(url: str) -> str:
    """Return the host of a page URL.

    Raises:
        NotAllowed: It is not a valid URL of a page.
    """
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as problem:
        raise NotAllowed(f"{url[:200]!r} is not a valid URL: {problem}") from problem
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise NotAllowed(f"{url[:200]!r} is not a valid URL; it must start with https:// or http://")
    return parsed.host


MAX_API_BYTES = 4_000_000
MAX_ERROR_CHARS = 200
MIN_ERROR_STATUS = 400

ApiResponse = TypeVar("ApiResponse", bound=BaseModel)
OptionalText = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]
"""Text that may be missing or null."""


async def call_api(http: HttpClient, provider: str, request: WebRequest, model: type[ApiResponse]) -> ApiResponse:
    """Send a request to a provider and return its parsed response.

    Raises:
        WebProblem: It failed; the text gives the reason and a remedy.
    """
    response = await http.send(request)
    check_status(provider, response)
    try:
        return model.model_validate_json(response.body)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "its whole answer"
        raise Unreadable(f"{provider} returned an unexpected response ({where}: {first['msg']})") from problem


def check_status(provider: str, response: WebResponse) -> None:
    """Raise the error for a status other than 200."""
    status = response.status
    if status in (401, 403):
        raise MissingKey(f"{provider} rejected the API key: check `api_key` of the tool in config.yaml")
    if status in (402, 432, 433):
        raise WebRateLimited(
            f"the quota of {provider} is used up; only the user can change that, so continue without it"
        )
    if status == 429:
        after = response.headers.get("retry-after", "")
        when = f"in {after} s" if after.isdigit() else "in a while"
        raise WebRateLimited(f"{provider} asks to slow down; continue with what you have, or try again {when}")
    if status >= MIN_ERROR_STATUS:
        text = " ".join(response.body[: MAX_ERROR_CHARS * 4].decode(errors="replace").split())[:MAX_ERROR_CHARS]
        raise Rejected(f"{provider} answered with status {status}: {text or 'no message'}")
    if status != 200:
        raise Rejected(f"{provider} answered with status {status}, which is unexpected")


def require_key(provider: str, key: SecretStr | None, variable: str) -> str:
    """Return the API key.

    Raises:
        MissingKey: There is none.
    """
    if key is None or not key.get_secret_value():
        raise MissingKey(
            f"{provider} needs a key: set {variable} in the environment or in .env, "
            "or write `api_key` into the entry of this tool in config.yaml"
        )
    return key.get_secret_value()
