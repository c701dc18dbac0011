"""Client of the HTTP API in a sandbox container: that of the AIO sandbox and the additions of our own image."""

import asyncio
import errno
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from pydantic import BaseModel, Field, ValidationError

from deerflow.domain.errors import FileProblem, SandboxError
from deerflow.sandbox.files.files import REASONS

CALL_TIMEOUT_S = 60.0
CONNECT_TIMEOUT_S = 10.0
MAX_RESPONSE_BYTES = 16 * 1024 * 1024
MAX_CONNECTIONS = 64
IDLE_CONNECTION_S = 300.0

Json = Mapping[str, object]
T = TypeVar("T", bound=BaseModel)


class SandboxUnreachable(SandboxError):
    """The server does not answer, or its response is incomplete: the container may have exited."""


@dataclass(frozen=True, slots=True)
class SandboxAddress:
    """Address and token of a sandbox server."""

    url: str
    token: str | None = None
    socket: Path | None = None
    """Unix socket to connect to instead of the host of the URL."""


class ServerInfo(BaseModel):
    """Description of a server by itself."""

    home_dir: str = "/mnt/user-data/workspace"
    deerflow: int = 0
    """Version of our additions; 0 if there are none."""


class ApiEnvelope(BaseModel):
    """Envelope of every response."""

    success: bool = True
    message: str | None = None
    data: Any = None
    errno: str | None = None


class CommandOutput(BaseModel):
    """Result of a command, for both endpoints that run one."""

    output: str = ""
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    status: str | None = None


class CommandEvent(BaseModel):
    """One line of a command's event stream: output, a gap, the exit code, or an error."""

    output: str = ""
    left_out: int = 0
    exit_code: int | None = None
    timed_out: bool = False
    problem: str | None = None


class FoundFiles(BaseModel):
    """Paths that were found."""

    files: list[str] = Field(default_factory=list)
    truncated: bool = False


class FolderItem(BaseModel):
    """One entry of a folder."""

    path: str
    is_directory: bool = False


class RemoteFolder(BaseModel):
    """Entries of a folder."""

    files: list[FolderItem] = Field(default_factory=list)
    truncated: bool = False


class MatchedLine(BaseModel):
    """A matching line."""

    file: str
    line_number: int
    line_content: str = ""


class MatchedLines(BaseModel):
    """Matching lines."""

    matches: list[MatchedLine] = Field(default_factory=list)
    truncated: bool = False


class RemoteProcess(BaseModel):
    """A background process and its output, if requested."""

    name: str
    command: str
    exit_code: int | None = None
    output: str = ""
    truncated: bool = False


class RemoteProcesses(BaseModel):
    """The background processes."""

    processes: list[RemoteProcess]


class EmptyResponse(BaseModel):
    """A response without relevant data."""


class SandboxApi:
    """Client of one server. Calls run concurrently, each with its own timeout."""

    def __init__(self, address: SandboxAddress) -> None:
        self.address = address
        self._limits: set[asyncio.Timeout] = set()
        self.has_failed = False
        """True if a call could not reach the server."""
        headers = {"Content-Type": "application/json"}
        if address.token:
            headers["Authorization"] = f"Bearer {address.token}"
        self._session = aiohttp.ClientSession(
            address.url, connector=make_connector(address), headers=headers, auto_decompress=False
        )

    async def aclose(self) -> None:
        """Close the connections; pending calls fail."""
        await self._session.close()
        for limit in self._limits:
            if not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time())

    async def context(self, timeout_s: float = CALL_TIMEOUT_S) -> ServerInfo:
        """Return the description of the server; an answer means that it is ready."""
        async with self._request("GET", "/v1/sandbox", timeout_s=timeout_s) as response:
            return parse_response(ServerInfo, await read_bounded(response))

    async def post(self, path: str, body: Json, model: type[T], timeout_s: float = CALL_TIMEOUT_S) -> T:
        """Send a POST request and return the parsed data."""
        async with self._request("POST", path, body, timeout_s=timeout_s) as response:
            return parse_data(model, await read_bounded(response))

    async def get(self, path: str, model: type[T], timeout_s: float = CALL_TIMEOUT_S) -> T:
        """Send a GET request and return the parsed data."""
        async with self._request("GET", path, timeout_s=timeout_s) as response:
            return parse_data(model, await read_bounded(response))

    async def download(self, path: str, limit: int) -> bytes:
        """Return the bytes of a file."""
        async with self._request("GET", "/v1/file/download", params={"path": path}) as response:
            return await read_bounded(response, limit)

    async def events(self, path: str, body: Json, timeout_s: float) -> AsyncGenerator[CommandEvent, None]:
        """Yield the events of a streamed response. Closing the generator closes the connection."""
        async with self._request("POST", path, body, timeout_s=timeout_s) as response:
            while line := await read_line(response.content):
                yield parse_response(CommandEvent, line)

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        params: Mapping[str, str] | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)
        # The body may contain a file: encoding it, or sending it at once, would block the event loop.
        data = None if body is None else BytesIO(await asyncio.to_thread(encode_json, body))
        try:
            async with (
                self._limited(timeout_s),
                self._session.request(method, path, data=data, params=params, timeout=limits) as response,
            ):
                if response.status >= 400:
                    body_or_params = {**(body or {}), **(params or {})}
                    raise make_error(path, body_or_params, response.status, await read_bounded(response))
                yield response
        except TimeoutError:
            self.has_failed = True
            reason = "has ended" if self._session.closed else f"did not answer {path} within {timeout_s:g} s"
            raise SandboxUnreachable(f"the sandbox {reason}; call the tool again") from None
        except (aiohttp.ClientError, OSError, RuntimeError) as problem:  # RuntimeError: closed from our side
            self.has_failed = True
            reason = str(problem) or type(problem).__name__
            raise SandboxUnreachable(f"the sandbox cannot be reached ({reason}); call the tool again") from problem

    @asynccontextmanager
    async def _limited(self, timeout_s: float) -> AsyncIterator[None]:
        """Set a timeout that `aclose` can bring forward: aiohttp lets pending calls wait forever."""
        async with asyncio.timeout(timeout_s) as limit:
            self._limits.add(limit)
            try:
                yield
            finally:
                self._limits.discard(limit)


def make_connector(address: SandboxAddress) -> aiohttp.BaseConnector:
    """Return a connector that keeps connections: a new one starts a program in the container."""
    if address.socket is None:
        return aiohttp.TCPConnector(limit=MAX_CONNECTIONS, keepalive_timeout=IDLE_CONNECTION_S)
    return aiohttp.UnixConnector(str(address.socket), limit=MAX_CONNECTIONS, keepalive_timeout=IDLE_CONNECTION_S)


def encode_json(body: Json) -> bytes:
    """Return the body of a request."""
    return json.dumps(body).encode()


def make_error(path: str, body_or_params: Json, status: int, body: bytes) -> SandboxError | FileProblem:
    """Return the error for an HTTP error response."""
    if status == 401:
        return SandboxError("the sandbox refuses our token; end the container, and a new one is made")
    try:
        envelope = ApiEnvelope.model_validate_json(body)
    except ValidationError:
        envelope = ApiEnvelope(message=body[:500].decode(errors="replace"))
    if envelope.errno is not None:
        reason = REASONS.get(getattr(errno, envelope.errno, 0)) or envelope.message or "it cannot be used"
        return FileProblem(f"{body_or_params.get('file') or body_or_params.get('path')!r} cannot be used: {reason}")
    if status == 404:
        advice = "use a newer image (AIO 1.9.3 or later), or build deploy/sandbox and set sandbox.image to it"
        return SandboxError(f"the sandbox image does not know {path}; {advice}")
    return SandboxError(envelope.message or f"the sandbox answered with status {status}")


def parse_data(kind: type[T], body: bytes) -> T:
    """Return the data in the envelope."""
    envelope = parse_response(ApiEnvelope, body)
    if not envelope.success:
        raise SandboxError(envelope.message or "the sandbox failed without a message")
    return parse_response(kind, json.dumps(envelope.data).encode())


def parse_response(kind: type[T], body: bytes) -> T:
    """Validate a response: commands in the sandbox may have taken over the server."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as problem:
        raise SandboxUnreachable(f"unexpected response of the sandbox: {problem.errors()[0]['msg']}") from None


async def read_line(stream: aiohttp.StreamReader) -> bytes:
    """Return the next line; empty at the end."""
    try:
        return await stream.readline()
    except ValueError:
        raise SandboxUnreachable("line too long in the response of the sandbox") from None


async def read_bounded(response: aiohttp.ClientResponse, limit: int = MAX_RESPONSE_BYTES) -> bytes:
    """Return the whole response, up to a limit."""
    content = bytearray()
    async for chunk in response.content.iter_any():
        content += chunk
        if len(content) > limit:
            raise SandboxError(f"the response of the sandbox has more than {limit // 1024**2} MB; ask for less")
    return bytes(content)
