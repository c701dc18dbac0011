"""Server with the protocol of Slack: Web API and Socket Mode."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

import orjson
from aiohttp import WSMsgType, web

from deerflow.testing.channels.slack_workspace import FakeWorkspace, SlackMessage, problem

BOT_TOKEN, APP_TOKEN = "xoxb-fake", "xapp-fake"
OWNER, DIRECT, CHANNEL = "U7", "D7", "C1"
DURABLE = ("chat.postMessage", "chat.startStream", "files.completeUploadExternal")
"""Requests after which there is one more message."""
JSON_METHODS = ("auth.test", "chat.", "files.completeUploadExternal")
"""Methods that take JSON; the others take forms only."""
Fault = Literal["cut_before", "cut_after", "server_error"]
"""Connection that ends before a request is carried out, or after it; or HTTP 502 without JSON."""


@dataclass(frozen=True, slots=True)
class SlackCall:
    """Request to the Web API that was carried out or refused."""

    method: str
    parameters: Mapping[str, Any]
    error: str
    at: float


class FakeSlack:
    """Slack for one bot, on a free local port.

    Envelopes that are not acknowledged are sent again with the next connection. `flood` refuses requests to a chat
    for a time, `faults` has the faults of the next requests that send a message, `expire_streams` ends streams.
    """

    def __init__(self, port: int = 0, *, has_streams: bool = True) -> None:
        self.calls: list[SlackCall] = []
        self.workspace = FakeWorkspace(has_streams)
        self.faults: deque[Fault] = deque()
        self.violations: list[SlackCall] = []
        """Requests while the server wanted none."""
        self.connections = 0
        self.waits: list[float] = []
        """Seconds from the moment at which each envelope was sent until it was acknowledged."""
        self.unacknowledged: dict[str, dict[str, Any]] = {}
        self._sent_at: dict[str, float] = {}
        self._port = port
        self._last = 1000
        self._flood_next: dict[str, int] = {}
        self._flooded: dict[str, float] = {}
        self._changed = asyncio.Event()
        self._sockets: list[web.WebSocketResponse] = []
        self._runner: web.AppRunner | None = None

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/api/"

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/api/{method}", self._handle)
        app.router.add_post("/upload/{file}", self._receive_content)
        app.router.add_get("/files/{file}", self._send_content)
        app.router.add_get("/link", self._link)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self.workspace.host = f"127.0.0.1:{self._port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._notify()
        if self._runner is not None:
            await self._runner.cleanup()

    async def write(
        self,
        text: str,
        *,
        sender: str = OWNER,
        chat: str = DIRECT,
        thread: str | None = None,
        ts: str | None = None,
        kind: str = "message",
        document: tuple[str, bytes] | None = None,
        **event: Any,
    ) -> str:
        """Send a message to the bot and return its timestamp. The same `ts` is the same message."""
        ts = ts or self.workspace.next_ts()
        written = {"type": kind, "user": sender, "channel": chat, "ts": ts, "text": text, "client_msg_id": ts, **event}
        if thread is not None:
            written["thread_ts"] = thread
        if document is not None:
            name, content = document
            file_id = self.workspace.add_file(name, content)
            described = {"id": file_id, "name": name, "size": len(content), "file_access": "visible"}
            written |= {"files": [described], "subtype": "file_share"}
        self._last += 1
        await self.push("events_api", {"event_id": f"Ev{self._last}", "event": written})
        return ts

    async def press(self, message: SlackMessage, value: str, *, sender: str = OWNER, chat: str | None = None) -> None:
        """Press a button, or send one that does not exist."""
        self._last += 1
        shown = {"ts": message.ts, **({"thread_ts": message.thread} if message.thread else {})}
        action = {"type": "button", "action_id": "choice0", "value": value, "action_ts": str(self._last)}
        user = {"id": sender, "name": f"Person {sender}"}
        payload = {"type": "block_actions", "user": user, "channel": {"id": chat or message.chat}, "message": shown}
        await self.push("interactive", {**payload, "actions": [action]})

    async def command(self, command: str, text: str, *, sender: str = OWNER, chat: str = DIRECT) -> None:
        """Send a slash command."""
        payload = {
            "command": command,
            "text": text,
            "user_id": sender,
            "channel_id": chat,
            "trigger_id": self.workspace.next_ts(),
        }
        await self.push("slash_commands", payload)

    async def push(self, kind: str, payload: Mapping[str, Any]) -> None:
        """Send an envelope; it is sent again until it is acknowledged."""
        self._last += 1
        name = f"E{self._last}"
        envelope = {"type": kind, "envelope_id": name, "payload": payload, "retry_attempt": 0}
        self.unacknowledged[name] = envelope
        if self._sockets:
            await self._send(self._sockets[-1], envelope)

    async def redeliver(self) -> None:
        """Send what is not acknowledged once more, as Slack does after three seconds."""
        for envelope in list(self.unacknowledged.values()):
            envelope["retry_attempt"] += 1
            for socket in self._sockets[-1:]:
                await self._send(socket, envelope)

    async def disconnect(self, reason: str = "refresh_requested") -> None:
        """Tell the client to connect again, and close."""
        for socket in list(self._sockets):
            await socket.send_json({"type": "disconnect", "reason": reason})
            await socket.close()

    async def close_sockets(self, code: int) -> None:
        """Close the connections with a code; 1005, 1006 and 1015 are those of a connection that is cut."""
        for socket in list(self._sockets):
            if code in (1005, 1006, 1015):
                self._cut_socket(socket)
            else:
                await socket.close(code=code)

    def expire_streams(self) -> None:
        """End all streams, as Slack does five minutes after their beginning."""
        for message in self.messages.values():
            message.is_streaming = False

    def flood(self, chat: str, seconds: int) -> None:
        """Refuse requests to a chat for some seconds from the next one on."""
        self._flood_next[chat] = seconds

    def in_chat(self, chat: str) -> list[SlackMessage]:
        """Return the messages of the bot in a chat, oldest first."""
        return self.workspace.in_chat(chat)

    @property
    def messages(self) -> Mapping[str, SlackMessage]:
        """Return all messages of the bot by timestamp."""
        return self.workspace.messages

    @property
    def ephemeral(self) -> Sequence[tuple[str, str]]:
        """Return the texts that only one person sees, with the person."""
        return self.workspace.ephemeral

    async def wait_until(self, is_true: Callable[[], object]) -> None:
        """Wait until something is true; it is checked after each request."""
        while not is_true():
            await self._changed.wait()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    @staticmethod
    def _cut_socket(socket: web.WebSocketResponse) -> None:
        transport = socket._req.transport if socket._req is not None else None
        if transport is not None:
            transport.abort()

    async def _send(self, socket: web.WebSocketResponse, envelope: Mapping[str, Any]) -> None:
        self._sent_at.setdefault(envelope["envelope_id"], asyncio.get_running_loop().time())
        if not socket.closed:
            await socket.send_json(envelope)

    async def _link(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.connections += 1
        await socket.send_json({"type": "hello", "num_connections": 1, "connection_info": {"app_id": "A1"}})
        self._sockets.append(socket)
        for envelope in list(self.unacknowledged.values()):
            await self._send(socket, envelope)
        self._notify()
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    self._acknowledge(orjson.loads(message.data)["envelope_id"])
        finally:
            self._sockets.remove(socket)
            self._notify()
        return socket

    def _acknowledge(self, envelope_id: str) -> None:
        if self.unacknowledged.pop(envelope_id, None) is not None:
            self.waits.append(asyncio.get_running_loop().time() - self._sent_at[envelope_id])
        self._notify()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        expected = APP_TOKEN if method == "apps.connections.open" else BOT_TOKEN
        if request.headers.get("Authorization") != f"Bearer {expected}":
            self._notify()
            return refuse("invalid_auth")
        answer = self._answer(request, method, await read_parameters(request, method))
        self._notify()
        return answer

    def _answer(self, request: web.Request, method: str, parameters: Mapping[str, Any]) -> web.StreamResponse:
        now = asyncio.get_running_loop().time()
        chat = str(parameters.get("channel") or parameters.get("channel_id") or "")
        if chat in self._flood_next:
            seconds = self._flood_next.pop(chat)
            self._flooded[chat] = now + seconds
            return flooded(seconds)
        if now < self._flooded.get(chat, 0.0):
            self.violations.append(SlackCall(method, parameters, "ratelimited", now))
            return flooded(1)
        fault = self.faults.popleft() if self.faults and method in DURABLE else None
        if fault == "cut_before":
            return cut(request)
        if fault == "server_error":
            return web.Response(status=502, text="Bad Gateway")
        answer = self.workspace.execute(method, parameters)
        self.calls.append(SlackCall(method, parameters, str(answer.get("error") or ""), now))
        return cut(request) if fault == "cut_after" else web.json_response(answer)

    async def _receive_content(self, request: web.Request) -> web.StreamResponse:
        name, expected = self.workspace.files[request.match_info["file"]]
        content = await request.read()
        if len(content) != len(expected):
            return web.Response(status=400, text="the length is wrong")
        self.workspace.files[request.match_info["file"]] = (name, content)
        return web.Response(text=f"OK - {len(content)}")

    async def _send_content(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {BOT_TOKEN}":
            return web.Response(text="<html>log in</html>", content_type="text/html")
        return web.Response(
            body=self.workspace.files[request.match_info["file"]][1], content_type="application/octet-stream"
        )


async def read_parameters(request: web.Request, method: str) -> Mapping[str, Any]:
    """Return the parameters of a request: of its address, and of a form or, where Slack takes it, JSON."""
    given: dict[str, Any] = dict(request.query)
    if request.content_type == "application/json":
        given |= orjson.loads(await request.read() or b"{}") if method.startswith(JSON_METHODS) else {}
    else:
        given |= await request.post()
    return {name: parse_field(value) for name, value in given.items()}


def parse_field(value: Any) -> Any:
    """Return a field of a form: lists and objects are JSON."""
    if not isinstance(value, str) or not value.startswith(("[", "{")):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value


def refuse(error: str) -> web.Response:
    """Return a response with an error."""
    return web.json_response(problem(error))


def flooded(seconds: int) -> web.Response:
    """Return the response that asks to wait."""
    return web.json_response(problem("ratelimited"), status=429, headers={"Retry-After": str(seconds)})


def cut(request: web.Request) -> web.Response:
    """End the connection of a request without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
