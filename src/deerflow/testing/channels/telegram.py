"""Server with the protocol of the Bot API of Telegram."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson
from aiohttp import web

from deerflow.testing.channels.server import BotCall, FakeChatServer, ShownMessage, cut, read_body

TOKEN = "123456:fake-token"
BOT: Mapping[str, Any] = {"id": 123456, "is_bot": True, "first_name": "Deer", "username": "deer_bot"}
MAX_UNITS = 4096
MAX_UPDATES = 100
MAX_POLL_S = 5.0
DURABLE = ("sendMessage", "sendDocument")
"""Requests after which there is one more message."""


class FakeTelegram(FakeChatServer):
    """Server of the Bot API for one bot, on a free local port.

    Updates that are not confirmed by a higher offset are given again. A second request for updates ends the first.
    """

    def __init__(self, port: int = 0, *, has_drafts: bool = True) -> None:
        super().__init__(port)
        self.drafts: dict[int, list[str]] = {}
        """Texts of drafts by chat."""
        self.polls = 0
        self.cut_polls = 0
        """Number of requests for updates that are cut off next."""
        self.is_draining = False
        self._has_drafts = has_drafts
        self._updates: list[dict[str, Any]] = []
        self._last_update = 1000
        self._last_message = 0
        self._files: dict[str, bytes] = {}
        self._poller: asyncio.Event | None = None

    def add_routes(self, app: web.Application) -> None:
        app.router.add_post("/bot{token}/{method}", self._handle)
        app.router.add_get("/file/bot{token}/{path:.*}", self._send_content)

    def write(
        self,
        text: str,
        *,
        sender: int = 7,
        chat: int | None = None,
        language: str = "en",
        update_id: int | None = None,
        document: tuple[str, bytes] | None = None,
        **message: Any,
    ) -> int:
        """Send a message to the bot; `chat` is a group if it is negative. Return the id of the update."""
        self._last_message += 1
        person = {"id": sender, "is_bot": False, "first_name": f"Person {sender}", "language_code": language}
        place = sender if chat is None else chat
        kind = "private" if place > 0 else "supergroup"
        written = {"message_id": self._last_message, "from": person, "chat": {"id": place, "type": kind}, "date": 0}
        if document is not None:
            name, content = document
            file_id = f"file{len(self._files)}"
            self._files[file_id] = content
            written["document"] = {"file_id": file_id, "file_name": name, "file_size": len(content)}
            written["caption"] = text
        else:
            written["text"] = text
        return self.push({"message": {**written, **message}}, update_id)

    def press(self, message_id: int, data: str, *, sender: int = 7, chat: int | None = None) -> int:
        """Press a button, or send one that does not exist. Return the id of the update."""
        person = {"id": sender, "is_bot": False, "first_name": f"Person {sender}", "language_code": "en"}
        place = sender if chat is None else chat
        message = {"message_id": message_id, "chat": {"id": place, "type": "private" if place > 0 else "supergroup"}}
        press = {"id": f"press{self._last_update}", "from": person, "message": message, "data": data}
        return self.push({"callback_query": press})

    def stop_draft(self, chat: int, draft_id: int) -> int:
        """Press the button of a draft."""
        return self.push(
            {"stopped_message_generation": {"chat": {"id": chat, "type": "private"}, "draft_id": draft_id}}
        )

    def push(self, update: Mapping[str, Any], update_id: int | None = None) -> int:
        """Add an update."""
        self._last_update = max(self._last_update + 1, update_id or 0)
        self._updates.append({"update_id": update_id or self._last_update, **update})
        self.notify()
        return update_id or self._last_update

    @property
    def unconfirmed(self) -> int:
        """Number of updates that will be given again."""
        return len(self._updates)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        if request.match_info["token"] != TOKEN:
            self.notify()
            return refuse(401, "Unauthorized")
        parameters = await read_body(request)
        if request.content_type != "application/json":
            parameters = {name: parse_field(value) for name, value in parameters.items()}
        if method == "getUpdates":
            return await self._get_updates(parameters)
        answer = self._answer(request, method, parameters)
        self.notify()
        return answer

    async def _get_updates(self, parameters: Mapping[str, Any]) -> web.StreamResponse:
        if self._poller is not None:
            self._poller.set()
        current = self._poller = asyncio.Event()
        self.polls += 1
        offset = int(parameters.get("offset") or 0)
        self._updates = [update for update in self._updates if update["update_id"] >= offset]
        self.notify()
        if self.cut_polls:
            self.cut_polls -= 1
            raise web.HTTPBadGateway
        with suppress(TimeoutError):
            async with asyncio.timeout(min(float(parameters.get("timeout") or 0), MAX_POLL_S)):
                await self._wait_for_update(current)
        if current.is_set():
            return refuse(409, "Conflict: terminated by other getUpdates request")
        return accept(self._updates[:MAX_UPDATES])

    async def _wait_for_update(self, replaced: asyncio.Event) -> None:
        """Wait until there is an update, or another request for updates."""
        while not self._updates and not replaced.is_set():
            waiting = [asyncio.create_task(event.wait()) for event in (self._changed, replaced)]
            try:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in waiting:
                    each.cancel()

    def _answer(self, request: web.Request, method: str, parameters: Mapping[str, Any]) -> web.StreamResponse:
        now = asyncio.get_running_loop().time()
        chat = int(parameters.get("chat_id") or 0)
        if (wait_s := self.check_flood(method, parameters, chat)) is not None:
            return refuse(429, "Too Many Requests", {"retry_after": wait_s})
        fault = self.faults.popleft() if self.faults and method in DURABLE else None
        if fault == "cut_before":
            return cut(request)
        if fault == "server_error":
            return web.Response(status=502, text="Bad Gateway")
        answer = self._execute(method, parameters)
        self.calls.append(BotCall(method, parameters, answer.status, now))
        return cut(request) if fault == "cut_after" else answer

    def _execute(self, method: str, parameters: Mapping[str, Any]) -> web.Response:
        match method:
            case "getMe":
                return accept(BOT)
            case "deleteWebhook":
                return accept(True)
            case "sendMessage":
                return self._send(parameters)
            case "sendDocument":
                return self._send_document(parameters)
            case "editMessageText":
                return self._edit(parameters)
            case "sendMessageDraft" if self._has_drafts and int(parameters["chat_id"]) > 0:
                self.drafts.setdefault(int(parameters["chat_id"]), []).append(str(parameters.get("text") or ""))
                return accept(True)
            case "sendMessageDraft":
                return refuse(400, "Bad Request: TEXTDRAFT_PEER_INVALID")
            case "answerCallbackQuery":
                self.pressed.append((str(parameters["callback_query_id"]), str(parameters.get("text") or "")))
                return accept(True)
            case "getFile" if parameters["file_id"] in self._files:
                return accept({"file_id": parameters["file_id"], "file_path": f"documents/{parameters['file_id']}"})
        return refuse(400, f"Bad Request: {method}")

    def _send(self, parameters: Mapping[str, Any]) -> web.Response:
        if problem := check_text(parameters):
            return refuse(400, f"Bad Request: {problem}")
        message = self._add(parameters)
        message.text, message.entities = str(parameters["text"]), parameters.get("entities") or ()
        return accept(self._describe(message))

    def _send_document(self, parameters: Mapping[str, Any]) -> web.Response:
        message = self._add(parameters)
        message.file_name, message.file = parameters["document"]
        return accept(self._describe(message))

    def _add(self, parameters: Mapping[str, Any]) -> ShownMessage:
        self._last_message += 1
        buttons = read_buttons(parameters)
        topic = parameters.get("message_thread_id")
        message = ShownMessage(self._last_message, int(parameters["chat_id"]), "", buttons=buttons, topic=topic)
        self.messages[message.message_id] = message
        return message

    def _edit(self, parameters: Mapping[str, Any]) -> web.Response:
        message = self.messages.get(int(parameters["message_id"]))
        if message is None or message.chat != int(parameters["chat_id"]):
            return refuse(400, "Bad Request: message to edit not found")
        if problem := check_text(parameters):
            return refuse(400, f"Bad Request: {problem}")
        buttons = read_buttons(parameters)
        if (message.text, message.buttons) == (parameters["text"], buttons):
            return refuse(400, "Bad Request: message is not modified")
        message.history.append(message.text)
        message.text, message.buttons = str(parameters["text"]), buttons
        message.entities = parameters.get("entities") or ()
        return accept(self._describe(message))

    def _describe(self, message: ShownMessage) -> Mapping[str, Any]:
        chat = {"id": message.chat, "type": "private" if message.chat > 0 else "supergroup"}
        return {"message_id": message.message_id, "date": 0, "chat": chat, "text": message.text}

    async def _send_content(self, request: web.Request) -> web.Response:
        content = self._files.get(request.match_info["path"].rpartition("/")[2])
        if request.match_info["token"] != TOKEN or content is None:
            return refuse(404, "Not Found")
        return web.Response(body=content)


def accept(result: object) -> web.Response:
    """Return a response with a result."""
    return web.Response(body=orjson.dumps({"ok": True, "result": result}), content_type="application/json")


def refuse(code: int, description: str, parameters: Mapping[str, Any] | None = None) -> web.Response:
    """Return a response with an error."""
    body = {"ok": False, "error_code": code, "description": description}
    if parameters is not None:
        body["parameters"] = parameters
    return web.Response(status=code, body=orjson.dumps(body), content_type="application/json")


def check_text(parameters: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the text of a message: as Telegram counts, in UTF-16 code units."""
    units = len(str(parameters.get("text") or "").encode("utf-16-le")) // 2
    if units == 0:
        return "message text is empty"
    if units > MAX_UNITS:
        return "message is too long"
    for entity in parameters.get("entities") or ():
        if entity["length"] <= 0 or entity["offset"] + entity["length"] > units:
            return "entity beyond the text"
    return None


def read_buttons(parameters: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the buttons below a message."""
    keyboard = parameters.get("reply_markup") or {}
    return [button for row in keyboard.get("inline_keyboard", ()) for button in row]


def parse_field(value: Any) -> Any:
    """Return a field of a form: libraries send numbers and lists as JSON."""
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
