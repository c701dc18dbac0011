"""Local site with scripted responses that records its requests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import orjson
from langchain_core.tools import BaseTool

from deerflow.config.sections.tools import ToolConfig
from deerflow.tools.assembly import get_available_tools

ConnectionHandler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True)
class RecordedRequest:
    """One request."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def params(self) -> dict[str, str]:
        return {key: values[0] for key, values in parse_qs(urlsplit(self.target).query).items()}

    @property
    def json(self) -> object:
        return orjson.loads(self.body)

    @property
    def form(self) -> dict[str, str]:
        return {key: values[0] for key, values in parse_qs(self.body.decode()).items()}


@dataclass(frozen=True)
class ScriptedResponse:
    """Response of a path."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    speak: ConnectionHandler | None = None
    """Says what follows the head in its own way."""


def json_response(data: object, status: int = 200, **headers: str) -> ScriptedResponse:
    return ScriptedResponse(orjson.dumps(data), status, {"Content-Type": "application/json", **headers})


def html_response(body: str | bytes, content_type: str = "text/html; charset=utf-8") -> ScriptedResponse:
    return ScriptedResponse(body.encode() if isinstance(body, str) else body, headers={"Content-Type": content_type})


def redirect(location: str, status: int = 302) -> ScriptedResponse:
    return ScriptedResponse(status=status, headers={"Location": location})


@dataclass
class Site:
    """Paths and their responses; others are 404."""

    port: int = 0
    routes: dict[str, ScriptedResponse] = field(default_factory=dict)
    asked: list[RecordedRequest] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked]

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            asked = await read_request(reader)
            self.asked.append(asked)
            answer = self.routes.get(asked.path, ScriptedResponse(b"not found", 404, {"Content-Type": "text/plain"}))
            length = {} if answer.speak else {"Content-Length": str(len(answer.body))}
            lines = [f"{name}: {value}" for name, value in {**length, **answer.headers, "Connection": "close"}.items()]
            writer.write("\r\n".join([f"HTTP/1.1 {answer.status} Said", *lines, "", ""]).encode() + answer.body)
            if answer.speak is not None:
                await answer.speak(reader, writer)
            await writer.drain()
        writer.close()


async def read_request(reader: asyncio.StreamReader) -> RecordedRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    return RecordedRequest(method, target, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


@asynccontextmanager
async def open_site() -> AsyncIterator[Site]:
    site = Site()
    async with await asyncio.start_server(site, "127.0.0.1", 0) as server:
        site.port = server.sockets[0].getsockname()[1]
        yield site


def create_tool(provider: str, name: str, **settings: object) -> BaseTool:
    """Return a tool as configured by an entry in config.yaml."""
    use = f"deerflow.community.{provider}.tools:{name}_tool"
    entry = ToolConfig.model_validate({"name": name, "group": "web", "use": use, **settings})
    (tool,) = get_available_tools([entry]).tools
    assert tool.name == name
    return tool


async def call_tool(tool: BaseTool, **arguments: object) -> str:
    """Return the result of a tool as the model sees it."""
    message = await tool.ainvoke({"type": "tool_call", "id": "1", "name": tool.name, "args": arguments})
    return str(message.content)
