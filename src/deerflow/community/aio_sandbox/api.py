"""The HTTP API of the server in a sandbox container: the AIO sandbox's, and what our own image adds to it."""

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
from deerflow.sandbox.files import REASONS

CALL_S = 60.0
CONNECT_S = 10.0
MAX_ANSWER = 16 * 1024 * 1024
MAX_CONNECTIONS = 64
IDLE_CONNECTION_S = 300.0

Json = Mapping[str, object]
T = TypeVar("T", bound=BaseModel)


class SandboxUnreachable(SandboxError):
    """Nobody answers, or the answer is cut short: the container may be gone."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server of a sandbox is met, and what it wants to be shown."""

    url: str
    token: str | None = None
    socket: Path | None = None
    """Connections are made here, if not to the host of the address."""


class Context(BaseModel):
    """What a server says of itself."""

    home_dir: str = "/mnt/user-data/workspace"
    deerflow: int = 0
    """The version of our additions; 0: it has none of them."""


class Envelope(BaseModel):
    """What every answer is wrapped in."""

    success: bool = True
    message: str | None = None
    data: Any = None
    errno: str | None = None


class Output(BaseModel):
    """How a command ended, by either of the two ways to run one."""

    output: str = ""
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    status: str | None = None


class Piece(BaseModel):
    """One line of what a running command tells: something it printed, a gap, its end, or why it was not run."""

    output: str = ""
    left_out: int = 0
    exit_code: int | None = None
    timed_out: bool = False
    problem: str | None = None


class FileNames(BaseModel):
    """Paths that were found."""

    files: list[str] = Field(default_factory=list)
    truncated: bool = False


class ListedFile(BaseModel):
    """One entry of a folder."""

    path: str
    is_directory: bool = False


class Listing(BaseModel):
    """What is in a folder."""

    files: list[ListedFile] = Field(default_factory=list)
    truncated: bool = False


class Line(BaseModel):
    """A line that matches."""

    file: str
    line_number: int
    line_content: str = ""


class Lines(BaseModel):
    """Lines that match."""

    matches: list[Line] = Field(default_factory=list)
    truncated: bool = False


class Process(BaseModel):
    """A background process, and what it has printed where that was asked for."""

    name: str
    command: str
    exit_code: int | None = None
    output: str = ""
    truncated: bool = False


class Processes(BaseModel):
    """The background processes."""

    processes: list[Process]


class Nothing(BaseModel):
    """An answer nobody reads."""


class SandboxApi:
    """A client of one server. Calls do not wait for each other, and each has a time limit of its own."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._limits: set[asyncio.Timeout] = set()
        self.has_failed = False
        """Whether somebody could not reach the server."""
        headers = {"Content-Type": "application/json"}
        if address.token:
            headers["Authorization"] = f"Bearer {address.token}"
        self._session = aiohttp.ClientSession(
            address.url, connector=connector_to(address), headers=headers, auto_decompress=False
        )

    async def aclose(self) -> None:
        """Close the connections; calls that wait for an answer are told so."""
        await self._session.close()
        for limit in self._limits:
            if not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time())

    async def context(self, timeout_s: float = CALL_S) -> Context:
        """What the server is; that it answers means that it is ready."""
        async with self._request("GET", "/v1/sandbox", timeout_s=timeout_s) as response:
            return parse(Context, await read_bounded(response))

    async def post(self, path: str, body: Json, answer: type[T], timeout_s: float = CALL_S) -> T:
        """Ask for something and read the answer."""
        async with self._request("POST", path, body, timeout_s=timeout_s) as response:
            return read_data(answer, await read_bounded(response))

    async def get(self, path: str, answer: type[T], timeout_s: float = CALL_S) -> T:
        """Ask how something is."""
        async with self._request("GET", path, timeout_s=timeout_s) as response:
            return read_data(answer, await read_bounded(response))

    async def download(self, path: str, limit: int) -> bytes:
        """The bytes of a file."""
        async with self._request("GET", "/v1/file/download", params={"path": path}) as response:
            return await read_bounded(response, limit)

    async def pieces(self, path: str, body: Json, timeout_s: float) -> AsyncGenerator[Piece, None]:
        """What a server tells line by line. To stop listening is to hang up."""
        async with self._request("POST", path, body, timeout_s=timeout_s) as response:
            while line := await read_line(response.content):
                yield parse(Piece, line)

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        params: Mapping[str, str] | None = None,
        timeout_s: float = CALL_S,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
        # A file may be in it: not to be turned into JSON, or sent in one piece, where everybody waits.
        data = None if body is None else BytesIO(await asyncio.to_thread(to_json, body))
        try:
            async with (
                self._limited(timeout_s),
                self._session.request(method, path, data=data, params=params, timeout=limits) as response,
            ):
                if response.status >= 400:
                    asked = {**(body or {}), **(params or {})}
                    raise failure(path, asked, response.status, await read_bounded(response))
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
        """A time limit that `aclose` can bring forward: the library lets those who wait wait for ever."""
        async with asyncio.timeout(timeout_s) as limit:
            self._limits.add(limit)
            try:
                yield
            finally:
                self._limits.discard(limit)


def connector_to(address: Address) -> aiohttp.BaseConnector:
    """What makes connections, and keeps them: a new one is a program started in the container."""
    if address.socket is None:
        return aiohttp.TCPConnector(limit=MAX_CONNECTIONS, keepalive_timeout=IDLE_CONNECTION_S)
    return aiohttp.UnixConnector(str(address.socket), limit=MAX_CONNECTIONS, keepalive_timeout=IDLE_CONNECTION_S)


def to_json(body: Json) -> bytes:
    """The body of a request."""
    return json.dumps(body).encode()


def failure(path: str, asked: Json, status: int, body: bytes) -> SandboxError | FileProblem:
    """What a refusal means for whoever asked."""
    if status == 401:
        return SandboxError("the sandbox refuses our token; end the container, and a new one is made")
    try:
        envelope = Envelope.model_validate_json(body)
    except ValidationError:
        envelope = Envelope(message=body[:500].decode(errors="replace"))
    if envelope.errno is not None:
        reason = REASONS.get(getattr(errno, envelope.errno, 0)) or envelope.message or "it cannot be used"
        return FileProblem(f"{asked.get('file') or asked.get('path')!r} cannot be used: {reason}")
    if status == 404:
        advice = "use a newer image (AIO 1.9.3 or later), or build deploy/sandbox and set sandbox.image to it"
        return SandboxError(f"the sandbox image does not know {path}; {advice}")
    return SandboxError(envelope.message or f"the sandbox answered with status {status}")


def read_data(kind: type[T], body: bytes) -> T:
    """What is in the envelope."""
    envelope = parse(Envelope, body)
    if not envelope.success:
        raise SandboxError(envelope.message or "the sandbox does not say why it failed")
    return parse(kind, json.dumps(envelope.data).encode())


def parse(kind: type[T], body: bytes) -> T:
    """An answer, checked: whoever runs in the sandbox may have taken the server over."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as problem:
        raise SandboxUnreachable(f"the sandbox answers what nobody understands: {problem.errors()[0]['msg']}") from None


async def read_line(stream: aiohttp.StreamReader) -> bytes:
    """The next line; empty at the end."""
    try:
        return await stream.readline()
    except ValueError:
        raise SandboxUnreachable("the sandbox says more in one line than anybody asked for") from None


async def read_bounded(response: aiohttp.ClientResponse, limit: int = MAX_ANSWER) -> bytes:
    """The whole of an answer, unless it is too much."""
    content = bytearray()
    async for chunk in response.content.iter_any():
        content += chunk
        if len(content) > limit:
            raise SandboxError(f"the answer of the sandbox has more than {limit // 1024**2} MB; ask for less")
    return bytes(content)
