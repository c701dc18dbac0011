"""The Docker Engine API, which Podman speaks too, over its socket."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_pascal

from deerflow.domain.errors import SandboxError

CALL_S = 60.0
MAX_HEAD = 64 * 1024
FRAME_HEAD = 8
VERSION = "v1.40"
"""Docker since 2019 and every Podman with an API understand it."""
HOST = "http://engine"

T = TypeVar("T", bound=BaseModel)
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class EngineRefused(SandboxError):
    """The engine answered, and did not do what was asked."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"the container engine says: {message}")
        self.status = status


class EngineUnreachable(SandboxError):
    """Nobody answers at the socket."""


class Told(BaseModel):
    """Something the engine tells, its names written as the engine writes them."""

    model_config = ConfigDict(alias_generator=to_pascal)


class Info(Told):
    """What the engine is and how it runs."""

    server_version: str = "?"
    security_options: list[str] = Field(default_factory=list)

    @property
    def is_rootless(self) -> bool:
        return any("rootless" in option for option in self.security_options)


class Settings(Told):
    """What a container or image was made with."""

    labels: dict[str, str] | None = None
    env: list[str] | None = None


class State(Told):
    """Whether a container runs."""

    running: bool = False
    exit_code: int = 0


class Container(Told):
    """A container as a whole."""

    id: str
    config: Settings = Field(default_factory=Settings)
    state: State = Field(default_factory=State)

    @property
    def labels(self) -> Mapping[str, str]:
        return self.config.labels or {}


class Image(Told):
    """An image."""

    id: str
    config: Settings | None = None


class Listed(Told):
    """A container in a list."""

    id: str
    labels: dict[str, str] = Field(default_factory=dict)


class Made(Told):
    """The id of what was made."""

    id: str


class Waited(Told):
    """How a container ended."""

    status_code: int


class Engine:
    """A client of one engine."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self._session = aiohttp.ClientSession(HOST, connector=aiohttp.UnixConnector(str(socket)))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def info(self) -> Info:
        """What the engine is; that it answers means that we may use it."""
        return parse(Info, await self._ask("GET", "/info"))

    async def image(self, name: str) -> Image | None:
        """An image, if the engine has it."""
        found = await self._ask_for("GET", f"/images/{name}/json")
        return None if found is None else parse(Image, found)

    async def containers(self, label: str) -> Sequence[Listed]:
        """The containers, running or not, that have a label."""
        filters = json.dumps({"label": [label]})
        found = await self._ask("GET", "/containers/json", params={"all": "true", "filters": filters})
        return [parse(Listed, json.dumps(each).encode()) for each in json.loads(found)]

    async def container(self, name: str) -> Container | None:
        """A container, if there is one of that name."""
        found = await self._ask_for("GET", f"/containers/{name}/json")
        return None if found is None else parse(Container, found)

    async def create(self, name: str, settings: Mapping[str, Any]) -> str:
        """Make a container; its id."""
        return parse(Made, await self._ask("POST", "/containers/create", settings, {"name": name})).id

    async def start(self, name: str) -> None:
        """Start a container."""
        await self._ask("POST", f"/containers/{name}/start")

    async def wait(self, name: str) -> int:
        """The exit code of a container that ends by itself."""
        return parse(Waited, await self._ask("POST", f"/containers/{name}/wait")).status_code

    async def logs(self, name: str) -> str:
        """The last lines a container has printed."""
        params = {"stdout": "true", "stderr": "true", "tail": "20"}
        framed = await self._ask("GET", f"/containers/{name}/logs", params=params)
        return b"".join(unframe(framed)).decode(errors="replace").strip()

    async def remove(self, name: str) -> None:
        """End a container and forget it, if there is one."""
        await self._ask_for("DELETE", f"/containers/{name}", params={"force": "true", "v": "true"})

    async def connect(self, name: str, command: Sequence[str]) -> Streams:
        """Run a program in a container. It reads what is written, and what it prints comes back in frames."""
        order = {"AttachStdin": True, "AttachStdout": True, "AttachStderr": False, "Tty": False, "Cmd": list(command)}
        made = parse(Made, await self._ask("POST", f"/containers/{name}/exec", order))
        body = b'{"Detach":false,"Tty":false}'
        head = (
            f"POST /{VERSION}/exec/{made.id}/start HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        try:
            reader, writer = await asyncio.open_unix_connection(self.socket, limit=MAX_HEAD)
        except OSError as problem:
            raise unreachable(self.socket, problem) from problem
        try:
            writer.write(head.encode() + body)
            async with asyncio.timeout(CALL_S):
                status = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0].decode(errors="replace")
            if status.split(" ")[1] not in ("101", "200"):
                raise EngineRefused(500, status)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as problem:
            writer.transport.abort()
            raise unreachable(self.socket, problem) from problem
        except BaseException:
            writer.transport.abort()
            raise
        return reader, writer

    async def _ask_for(self, method: str, path: str, params: Mapping[str, str] | None = None) -> bytes | None:
        """Ask for something that may not be there."""
        try:
            return await self._ask(method, path, params=params)
        except EngineRefused as refusal:
            if refusal.status == 404:
                return None
            raise

    async def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> bytes:
        limit = aiohttp.ClientTimeout(total=CALL_S)
        try:
            async with self._session.request(
                method, f"/{VERSION}{path}", json=body, params=params, timeout=limit
            ) as response:
                content = await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as problem:
            raise unreachable(self.socket, problem) from problem
        if response.status >= 400:
            raise EngineRefused(response.status, read_message(content))
        return content


def unreachable(socket: Path, problem: Exception) -> EngineUnreachable:
    """The error for an engine that does not answer."""
    return EngineUnreachable(
        f"the container engine at {socket} does not answer: {str(problem) or type(problem).__name__}"
    )


def frame_size(head: bytes) -> int:
    """How long a piece of output is, by the bytes the engine puts before it."""
    return int.from_bytes(head[4:FRAME_HEAD])


def unframe(framed: bytes) -> Iterator[bytes]:
    """The pieces of output of a container."""
    while framed:
        end = FRAME_HEAD + frame_size(framed)
        yield framed[FRAME_HEAD:end]
        framed = framed[end:]


def read_message(content: bytes) -> str:
    """What the engine says about a failure."""
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return content[:500].decode(errors="replace").strip()


def parse(kind: type[T], content: bytes) -> T:
    """An answer of the engine."""
    try:
        return kind.model_validate_json(content)
    except ValidationError as problem:
        raise EngineRefused(500, f"what nobody understands: {problem.errors()[0]['msg']}") from None
