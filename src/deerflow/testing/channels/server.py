"""Server with the protocol of a chat app, on a free local port."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self

import orjson
from aiohttp import web

Fault = Literal["cut_before", "cut_after", "server_error"]
"""Connection that ends before a request is carried out, or after it; or HTTP 502 without JSON."""


@dataclass(frozen=True, slots=True)
class BotCall:
    """Request that was carried out or refused."""

    method: str
    parameters: Mapping[str, Any]
    status: int
    at: float


@dataclass(slots=True)
class ShownMessage:
    """Message as people see it now."""

    message_id: Any
    chat: int
    text: str
    entities: Sequence[Mapping[str, Any]] = ()
    buttons: Sequence[Mapping[str, Any]] = ()
    file: bytes | None = None
    file_name: str | None = None
    topic: Any = None
    history: list[str] = field(default_factory=list)
    """Texts before the current one."""


class FakeChatServer(ABC):
    """Messages and requests of one bot.

    `flood` refuses requests for a time, `faults` has the faults of the next requests that send a message.
    """

    def __init__(self, port: int = 0) -> None:
        self.calls: list[BotCall] = []
        self.messages: dict[Any, ShownMessage] = {}
        self.pressed: list[tuple[str, str]] = []
        """Answers to pressed buttons."""
        self.faults: deque[Fault] = deque()
        self.violations: list[BotCall] = []
        """Requests while the server wanted none."""
        self._port = port
        self._flooded: dict[int, float] = {}
        self._flood_next: dict[int, int] = {}
        self._changed = asyncio.Event()
        self._runner: web.AppRunner | None = None

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @abstractmethod
    def add_routes(self, app: web.Application) -> None:
        """Add the methods of the platform."""

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 2**20)
        self.add_routes(app)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.notify()
        if self._runner is not None:
            await self._runner.cleanup()

    def flood(self, chat: int, seconds: int) -> None:
        """Refuse requests to a chat for some seconds from the next one on."""
        self._flood_next[chat] = seconds

    def in_chat(self, chat: int) -> list[ShownMessage]:
        """Return the messages of a chat, oldest first."""
        return [message for message in self.messages.values() if message.chat == chat]

    async def wait_until(self, is_true: Callable[[], object]) -> None:
        """Wait until something is true; it is checked after each request."""
        while not is_true():
            await self._changed.wait()

    def notify(self) -> None:
        """Let those that wait check again."""
        self._changed.set()
        self._changed = asyncio.Event()

    def check_flood(self, method: str, parameters: Mapping[str, Any], chat: int) -> int | None:
        """Return after how many seconds a chat takes requests again; None if it does now."""
        now = asyncio.get_running_loop().time()
        if chat in self._flood_next:
            self._flooded[chat] = now + self._flood_next[chat]
            self.calls.append(BotCall(method, parameters, 429, now))
            return self._flood_next.pop(chat)
        if now < self._flooded.get(chat, 0.0):
            self.violations.append(BotCall(method, parameters, 429, now))
            return 1
        return None


def cut(request: web.Request) -> web.Response:
    """End the connection of a request without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def read_body(request: web.Request) -> dict[str, Any]:
    """Return the fields of a form, files as name and content, or of JSON, which libraries do not always declare."""
    if request.content_type not in ("multipart/form-data", "application/x-www-form-urlencoded"):
        fields: dict[str, Any] = orjson.loads(await request.read() or b"{}")
        return fields
    form = await request.post()
    return {
        name: (value.filename, value.file.read()) if isinstance(value, web.FileField) else value
        for name, value in form.items()
    }
