"""Client of the Docker Engine API over its socket; Podman supports it too."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_pascal

from deerflow.domain.errors import SandboxError

CALL_TIMEOUT_S = 60.0
MAX_HEAD = 64 * 1024
FRAME_HEAD = 8
VERSION = "v1.40"
"""Supported by Docker since 2019 and by every Podman with an API."""
HOST = "http://engine"

T = TypeVar("T", bound=BaseModel)
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class EngineRefused(SandboxError):
    """The engine answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"container engine: {message}")
        self.status = status


class EngineUnreachable(SandboxError):
    """The engine does not answer."""


class EngineModel(BaseModel):
    """Model with the field names of the engine."""

    model_config = ConfigDict(alias_generator=to_pascal)


class EngineInfo(EngineModel):
    """Version and security options of the engine."""

    server_version: str = "?"
    security_options: list[str] = Field(default_factory=list)

    @property
    def is_rootless(self) -> bool:
        return any("rootless" in option for option in self.security_options)


class ContainerSettings(EngineModel):
    """Settings of a container or image."""

    labels: dict[str, str] | None = None
    env: list[str] | None = None


class ContainerState(EngineModel):
    """State of a container."""

    running: bool = False
    exit_code: int = 0


class Container(EngineModel):
    """A container."""

    id: str
    config: ContainerSettings = Field(default_factory=ContainerSettings)
    state: ContainerState = Field(default_factory=ContainerState)

    @property
    def labels(self) -> Mapping[str, str]:
        return self.config.labels or {}


class ContainerImage(EngineModel):
    """An image."""

    id: str
    config: ContainerSettings | None = None


class ContainerSummary(EngineModel):
    """A container in a list."""

    id: str
    labels: dict[str, str] = Field(default_factory=dict)


class CreatedObject(EngineModel):
    """Id of a created object."""

    id: str


class ExitResult(EngineModel):
    """Exit status of a container."""

    status_code: int


class Engine:
    """Client of one engine."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self._session = aiohttp.ClientSession(HOST, connector=aiohttp.UnixConnector(str(socket)))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def info(self) -> EngineInfo:
        """Return version and options; an answer means that we may use the engine."""
        return parse_response(EngineInfo, await self._send("GET", "/info"))

    async def image(self, name: str) -> ContainerImage | None:
        """Return an image, if the engine has it."""
        found = await self._send_optional("GET", f"/images/{name}/json")
        return None if found is None else parse_response(ContainerImage, found)

    async def containers(self, label: str) -> Sequence[ContainerSummary]:
        """Return all containers with a label, running or not."""
        filters = json.dumps({"label": [label]})
        found = await self._send("GET", "/containers/json", params={"all": "true", "filters": filters})
        return [parse_response(ContainerSummary, json.dumps(each).encode()) for each in json.loads(found)]

    async def container(self, name: str) -> Container | None:
        """Return a container, if it exists."""
        found = await self._send_optional("GET", f"/containers/{name}/json")
        return None if found is None else parse_response(Container, found)

    async def create(self, name: str, settings: Mapping[str, Any]) -> str:
        """Create a container and return its id."""
        return parse_response(
            CreatedObject, await self._send("POST", "/containers/create", settings, {"name": name})
        ).id

    async def start(self, name: str) -> None:
        """Start a container."""
        await self._send("POST", f"/containers/{name}/start")

    async def wait(self, name: str) -> int:
        """Wait for a container and return its exit code."""
        return parse_response(ExitResult, await self._send("POST", f"/containers/{name}/wait")).status_code

    async def logs(self, name: str) -> str:
        """Return the last lines of the log of a container."""
        params = {"stdout": "true", "stderr": "true", "tail": "20"}
        framed = await self._send("GET", f"/containers/{name}/logs", params=params)
        return b"".join(iterate_frames(framed)).decode(errors="replace").strip()

    async def remove(self, name: str) -> None:
        """Kill and remove a container, if it exists."""
        await self._send_optional("DELETE", f"/containers/{name}", params={"force": "true", "v": "true"})

    async def connect(self, name: str, command: Sequence[str]) -> Streams:
        """Run a program in a container and return its streams; its output is framed."""
        command_body = {
            "AttachStdin": True,
            "AttachStdout": True,
            "AttachStderr": False,
            "Tty": False,
            "Cmd": list(command),
        }
        made = parse_response(CreatedObject, await self._send("POST", f"/containers/{name}/exec", command_body))
        body = b'{"Detach":false,"Tty":false}'
        head = (
            f"POST /{VERSION}/exec/{made.id}/start HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        try:
            reader, writer = await asyncio.open_unix_connection(self.socket, limit=MAX_HEAD)
        except OSError as problem:
            raise make_unreachable_error(self.socket, problem) from problem
        try:
            writer.write(head.encode() + body)
            async with asyncio.timeout(CALL_TIMEOUT_S):
                status = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0].decode(errors="replace")
            if status.split(" ")[1] not in ("101", "200"):
                raise EngineRefused(500, status)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as problem:
            writer.transport.abort()
            raise make_unreachable_error(self.socket, problem) from problem
        except BaseException:
            writer.transport.abort()
            raise
        return reader, writer

    async def _send_optional(self, method: str, path: str, params: Mapping[str, str] | None = None) -> bytes | None:
        """Send a request; return None for status 404."""
        try:
            return await self._send(method, path, params=params)
        except EngineRefused as refusal:
            if refusal.status == 404:
                return None
            raise

    async def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> bytes:
        limit = aiohttp.ClientTimeout(total=CALL_TIMEOUT_S)
        try:
            async with self._session.request(
                method, f"/{VERSION}{path}", json=body, params=params, timeout=limit
            ) as response:
                content = await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as problem:
            raise make_unreachable_error(self.socket, problem) from problem
        if response.status >= 400:
            raise EngineRefused(response.status, parse_error_message(content))
        return content


def make_unreachable_error(socket: Path, problem: Exception) -> EngineUnreachable:
    """Return the error for an engine that does not answer."""
    return EngineUnreachable(
        f"the container engine at {socket} does not answer: {str(problem) or type(problem).__name__}"
    )


def parse_frame_size(head: bytes) -> int:
    """Return the size of a frame from its header."""
    return int.from_bytes(head[4:FRAME_HEAD])


def iterate_frames(framed: bytes) -> Iterator[bytes]:
    """Yield the content of the frames."""
    while framed:
        end = FRAME_HEAD + parse_frame_size(framed)
        yield framed[FRAME_HEAD:end]
        framed = framed[end:]


def parse_error_message(content: bytes) -> str:
    """Return the message of an error response."""
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return content[:500].decode(errors="replace").strip()


def parse_response(kind: type[T], content: bytes) -> T:
    """Validate a response of the engine."""
    try:
        return kind.model_validate_json(content)
    except ValidationError as problem:
        raise EngineRefused(500, f"unexpected response: {problem.errors()[0]['msg']}") from None
