"""Server with the protocol of Feishu: long connection, messages, cards and files."""

import asyncio
import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson
from aiohttp import web

from deerflow.testing.channels.feishu_frames import FakeLink, decode, encode
from deerflow.testing.channels.server import BotCall, FakeChatServer, ShownMessage, cut, read_body

APP_ID, APP_SECRET = "cli_fake", "fake-secret"
BOT_ID = "ou_bot"
RECONNECT: Mapping[str, int] = {"ReconnectCount": -1, "ReconnectInterval": 1, "ReconnectNonce": 1}
STREAM_LIFE_S = 600.0
MAX_CARD_BYTES, MAX_TABLES, MAX_RATE = 30_000, 5, 10
TABLE = re.compile(r"^\|[-:| ]+\|$", re.MULTILINE)
Answer = Mapping[str, Any]


@dataclass(slots=True)
class CardEntity:
    """Card that can be changed on its own."""

    card_id: str
    card: dict[str, Any]
    opened_at: float
    sequence: int = 0
    message: ShownMessage | None = None
    changes: list[float] = field(default_factory=list)

    @property
    def is_streaming(self) -> bool:
        return bool(self.card["config"].get("streaming_mode"))


@dataclass(slots=True)
class SentEvent:
    """Event that is sent again until it is acknowledged."""

    payload: bytes
    sent_at: float


class Refusal(Exception):
    """Request that is refused, with a code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class FakeFeishu(FakeChatServer):
    """Server of one app. Events that are not acknowledged are sent again with each connection.

    `clock` ages streams; `split` is the number of frames of an event; `open` has the connections there are.
    """

    def __init__(
        self, port: int = 0, *, clock: Callable[[], float] | None = None, split: int = 1, ping_s: float = 1.0
    ) -> None:
        super().__init__(port)
        self.acknowledged: dict[str, float] = {}
        """Time from sending to acknowledgement of each event."""
        self.cards: dict[str, CardEntity] = {}
        self.open: list[FakeLink] = []
        self.connections = self.pings = self.tokens = self.failed = 0
        self.is_mute = False
        """True if pings are not answered."""
        self.split = split
        self.ping_s = ping_s
        self._clock = clock or (lambda: asyncio.get_running_loop().time())
        self._token = ""
        self._events: dict[str, SentEvent] = {}
        self._keys: dict[str, str] = {}
        self._files: dict[str, tuple[str, bytes]] = {}
        self._resources: dict[str, bytes] = {}
        self._places: dict[str, int] = {}  # chats of the messages of people
        self._last = 0

    def add_routes(self, app: web.Application) -> None:
        app.router.add_post("/callback/ws/endpoint", self._find_endpoint)
        app.router.add_get("/ws", self._connect)
        app.router.add_route("*", "/open-apis/{path:.*}", self._handle)

    @property
    def unconfirmed(self) -> int:
        """Number of events that will be sent again."""
        return len(self._events)

    def write(
        self,
        text: str,
        *,
        sender: int = 7,
        chat: int | None = None,
        update_id: int | None = None,
        document: tuple[str, bytes] | None = None,
        **message: Any,
    ) -> str:
        """Send a message to the bot; `chat` is a group if it is negative. Return its id."""
        message_id = f"om_{update_id or self._next()}"
        place = sender if chat is None else chat
        mentioned = re.sub("@deer_bot", "@_user_1", text, flags=re.IGNORECASE)
        content: Mapping[str, Any] = {"text": mentioned}
        if document is not None:
            key = f"file_{self._next()}"
            self.keep(message_id, key, document[1])
            content = {"file_key": key, "file_name": document[0]}
        written: dict[str, Any] = {
            "message_id": message_id,
            "chat_id": str(place),
            "chat_type": "p2p" if place > 0 else "group",
        }
        written |= {"message_type": "text" if document is None else "file", "content": orjson.dumps(content).decode()}
        if mentioned != text:
            written["mentions"] = [{"key": "@_user_1", "id": {"open_id": BOT_ID}, "name": "Deer"}]
        person = {"sender_id": {"open_id": str(sender)}, "sender_type": "user", "tenant_key": "t"}
        self._places[message_id] = place
        self.push("im.message.receive_v1", {"sender": person, "message": {**written, **message}})
        return message_id

    def keep(self, message_id: str, key: str, content: bytes) -> None:
        """Store a file of a message of a person."""
        self._resources[f"{message_id}/{key}"] = content

    def press(
        self, message_id: str, data: str, *, sender: int = 7, chat: int | None = None, value: object = None
    ) -> str:
        """Press a button, or send one that does not exist. Return the id of the event."""
        place = sender if chat is None else chat
        shown = self.messages.get(message_id)
        known = [each["value"] for each in shown.buttons if each["callback_data"] == data] if shown else []
        given = value or {**(known[0] if known else {"data": data}), "is_private": place > 0}
        context = {"open_message_id": message_id, "open_chat_id": str(place)}
        action = {"tag": "button", "value": given}
        event = {"operator": {"open_id": str(sender)}, "token": "c", "action": action, "context": context}
        return self.push("card.action.trigger", event)

    def push(self, kind: str, event: Mapping[str, Any]) -> str:
        """Send an event and return its id."""
        event_id = f"ev_{self._next()}"
        header = {"event_id": event_id, "event_type": kind, "app_id": APP_ID, "tenant_key": "t", "token": ""}
        payload = orjson.dumps({"schema": "2.0", "header": header, "event": event})
        self._events[event_id] = SentEvent(payload, asyncio.get_running_loop().time())
        self._send_event(event_id)
        return event_id

    def redeliver(self) -> None:
        """Send all events again that are not acknowledged."""
        for event_id in self._events:
            self._send_event(event_id)

    async def disconnect(self, code: int) -> None:
        """End the connections with a close code."""
        for link in list(self.open):
            await link.end(code)

    def expire_token(self) -> None:
        """Accept the current token no longer."""
        self._token = "expired"

    def _next(self) -> int:
        self._last += 1
        return self._last

    def _send_event(self, event_id: str) -> None:
        if not self.open:
            return
        link, payload = self.open[self._last % len(self.open)], self._events[event_id].payload
        size = -(-len(payload) // self.split)
        parts = [payload[at : at + size] for at in range(0, len(payload), size)]
        for at, part in enumerate(parts):
            headers = {"type": "event", "message_id": event_id, "trace_id": "t", "sum": str(len(parts)), "seq": str(at)}
            link.outgoing.put_nowait(encode(1, headers, part))

    async def _find_endpoint(self, request: web.Request) -> web.Response:
        given = await request.json()
        if (given.get("AppID"), given.get("AppSecret")) != (APP_ID, APP_SECRET):
            self.notify()
            return reply(code=514, msg="app_id or app_secret is wrong")
        config = {**RECONNECT, "PingInterval": self.ping_s}
        url = f"ws://127.0.0.1:{self._port}/ws?device_id=d&service_id=9"
        return reply(data={"URL": url, "ClientConfig": config})

    async def _connect(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(max_msg_size=16 * 2**20)
        await socket.prepare(request)
        self.connections += 1
        link = FakeLink(socket, request.transport)
        self.open.append(link)
        self.notify()
        self.redeliver()
        writer = asyncio.create_task(link.write())
        try:
            async for message in socket:
                if message.type is aiohttp.WSMsgType.BINARY:
                    self._read_frame(link, *decode(message.data))
                    self.notify()
        finally:
            writer.cancel()
            self.open.remove(link)
            self.notify()
        return socket

    def _read_frame(self, link: FakeLink, headers: Mapping[str, str], payload: bytes) -> None:
        if headers["type"] == "ping":
            self.pings += 1
            if not self.is_mute:
                link.outgoing.put_nowait(
                    encode(0, {"type": "pong"}, orjson.dumps({**RECONNECT, "PingInterval": self.ping_s}))
                )
            return
        answer, event_id = orjson.loads(payload), headers["message_id"]
        self.failed += answer["code"] != 200
        if answer["code"] != 200 or event_id not in self._events:
            return
        sent = self._events.pop(event_id)
        self.acknowledged[event_id] = asyncio.get_running_loop().time() - sent.sent_at
        if answer.get("data"):
            toast = orjson.loads(base64.b64decode(answer["data"]))["toast"]
            self.pressed.append((event_id, toast["content"]))

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        path, body = request.match_info["path"], await read_body(request)
        try:
            return self._answer(request, path, body)
        except Refusal as refusal:
            self.calls.append(BotCall(path, body, refusal.code, asyncio.get_running_loop().time()))
            return reply(400, code=refusal.code, msg=str(refusal))
        finally:
            self.notify()

    def _answer(self, request: web.Request, path: str, body: dict[str, Any]) -> web.StreamResponse:
        if path == "auth/v3/tenant_access_token/internal":
            return self._give_token(body)
        if request.headers.get("Authorization") != f"Bearer {self._token}":
            raise Refusal(99991663, "Invalid access token for authorization")
        if request.method == "GET":
            return self._read(path)
        chat = self._find_chat(path, body)
        if (wait_s := self.check_flood(path, body, chat)) is not None:
            return reply(
                429, {"x-ogw-ratelimit-reset": str(wait_s)}, code=99991400, msg="request trigger frequency limit"
            )
        sends = re.fullmatch(r"im/v1/messages(/[^/]+/reply)?", path) is not None and request.method == "POST"
        fault = self.faults.popleft() if self.faults and sends else None
        if fault == "cut_before":
            return cut(request)
        if fault == "server_error":
            return web.Response(status=502, text="Bad Gateway")
        data = self._execute(request.method, path, body, chat)
        self.calls.append(BotCall(path, body, 200, asyncio.get_running_loop().time()))
        return cut(request) if fault == "cut_after" else reply(data=data)

    def _give_token(self, body: Mapping[str, Any]) -> web.Response:
        if (body.get("app_id"), body.get("app_secret")) != (APP_ID, APP_SECRET):
            raise Refusal(10014, "app secret invalid")
        self.tokens += 1
        self._token = f"t-{self.tokens}"
        return reply(tenant_access_token=self._token, expire=7200)

    def _read(self, path: str) -> web.Response:
        if path == "bot/v3/info":
            return reply(bot={"activate_status": 2, "app_name": "deer_bot", "open_id": BOT_ID})
        if found := re.fullmatch(r"contact/v3/users/(.+)", path):
            return reply(data={"user": {"name": f"Person {found[1]}"}})
        found = re.fullmatch(r"im/v1/messages/([^/]+)/resources/([^/]+)", path)
        if found is None or f"{found[1]}/{found[2]}" not in self._resources:
            raise Refusal(234003, "file not in msg")
        return web.Response(body=self._resources[f"{found[1]}/{found[2]}"])

    def _find_chat(self, path: str, body: Mapping[str, Any]) -> int:
        """Return the chat that a request changes; 0 if it changes none."""
        names = path.split("/")
        if "receive_id" in body:
            return int(body["receive_id"])
        if path.startswith("im/v1/messages/"):
            return self.messages[names[3]].chat if names[3] in self.messages else self._places.get(names[3], 0)
        card = self.cards.get(names[3]) if path.startswith("cardkit/") and len(names) > 3 else None
        return card.message.chat if card is not None and card.message is not None else 0

    def _execute(self, method: str, path: str, body: dict[str, Any], chat: int) -> Answer:
        names = path.split("/")
        match method, *names:
            case "POST", "im", "v1", "messages":
                return self._send(chat, None, body)
            case "POST", "im", "v1", "messages", root, "reply":
                return self._send(chat, root, body)
            case "PATCH", "im", "v1", "messages", message_id if message_id in self.messages:
                return self._patch(self.messages[message_id], orjson.loads(body["content"]))
            case "POST", "im", "v1", "files":
                return {"file_key": self._keep(body["file_name"], body["file"][1])}
            case "POST", "im", "v1", "images":
                return {"image_key": self._keep(*body["image"])}
            case "POST", "cardkit", "v1", "cards", "id_convert":
                return {"card_id": self._find_entity(body["message_id"]).card_id}
            case "POST", "cardkit", "v1", "cards":
                card_id = f"card_{self._next()}"
                self.cards[card_id] = CardEntity(card_id, check_card(orjson.loads(body["data"])), self._clock())
                return {"card_id": card_id}
            case _, "cardkit", "v1", "cards", card_id, *rest if card_id in self.cards:
                return self._change_card(self.cards[card_id], rest, body)
        raise Refusal(99992402, f"field validation failed: {method} {path}")

    def _keep(self, name: str, content: bytes) -> str:
        key = f"key_{self._next()}"
        self._files[key] = (name, content)
        return key

    def _find_entity(self, message_id: str) -> CardEntity:
        for card in self.cards.values():
            if card.message is not None and card.message.message_id == message_id:
                return card
        raise Refusal(300000, "message is not a card")

    def _send(self, chat: int, root: str | None, body: Mapping[str, Any]) -> Answer:
        key = body.get("uuid")
        if key in self._keys:
            return {"message_id": self._keys[str(key)]}
        if key and len(key) > 50:
            raise Refusal(230001, "uuid is too long")
        message = ShownMessage(f"om_{self._next()}", chat, "", topic=root)
        content = orjson.loads(body["content"])
        if body["msg_type"] in ("file", "image"):
            message.file_name, message.file = self._files[content[f"{body['msg_type']}_key"]]
        elif content.get("type") == "card":
            card = self.cards[content["data"]["card_id"]]
            card.message = message
            show(message, card.card)
        else:
            show(message, check_card(content))
        self.messages[message.message_id] = message
        if key:
            self._keys[str(key)] = message.message_id
        return {"message_id": message.message_id}

    def _patch(self, message: ShownMessage, card: dict[str, Any]) -> Answer:
        message.history.append(message.text)
        show(message, check_card(card))
        return {}

    def _change_card(self, entity: CardEntity, rest: list[str], body: Mapping[str, Any]) -> Answer:
        now = asyncio.get_running_loop().time()
        entity.changes = [each for each in entity.changes if now - each < 1.0] + [now]
        if len(entity.changes) > MAX_RATE:
            self.violations.append(BotCall(entity.card_id, body, 429, now))
        if body["sequence"] <= entity.sequence:
            raise Refusal(300317, "sequence number compare failed")
        entity.sequence = body["sequence"]
        if rest == ["settings"]:
            entity.card["config"] |= orjson.loads(body["settings"])["config"]
            entity.opened_at = self._clock()
            return {}
        if rest:
            self._stream(entity, rest[1], body["content"])
        else:
            entity.card = check_card(orjson.loads(body["card"]["data"]))
        if entity.message is not None:
            entity.message.history.append(entity.message.text)
            show(entity.message, entity.card)
        return {}

    def _stream(self, entity: CardEntity, element_id: str, content: str) -> None:
        if not entity.is_streaming:
            raise Refusal(300309, "streaming mode is closed")
        if self._clock() - entity.opened_at > STREAM_LIFE_S:
            entity.card["config"]["streaming_mode"] = False
            raise Refusal(200850, "card streaming timeout")
        (element,) = [each for each in entity.card["body"]["elements"] if each.get("element_id") == element_id]
        element["content"] = content
        check_card(entity.card)


def reply(status: int = 200, headers: Mapping[str, str] | None = None, **values: Any) -> web.Response:
    """Return a response of the platform."""
    body = orjson.dumps({"code": 0, "msg": "ok", **values})
    return web.Response(status=status, headers=headers, body=body, content_type="application/json")


def check_card(card: dict[str, Any]) -> dict[str, Any]:
    """Return a card, or refuse it as the platform does."""
    if card.get("schema") != "2.0" or len(orjson.dumps(card)) > MAX_CARD_BYTES:
        raise Refusal(230025, "the length of the message content reaches its limit")
    if len(TABLE.findall(card["body"]["elements"][0]["content"])) > MAX_TABLES:
        raise Refusal(230099, "card table number over limit")
    return card


def show(message: ShownMessage, card: Mapping[str, Any]) -> None:
    """Set text and buttons of a message to those of a card."""
    elements = card["body"]["elements"]
    message.text = elements[0]["content"]
    buttons = [(each["text"]["content"], each["behaviors"][0]["value"]) for each in elements if each["tag"] == "button"]
    message.buttons = [{"text": label, "callback_data": value["data"], "value": value} for label, value in buttons]
