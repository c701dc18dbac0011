"""Feishu and Lark as a channel: events of the long connection, cards, buttons and files."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import suppress
from hashlib import md5
from pathlib import PurePosixPath
from typing import Any

import orjson

from deerflow.channels.adapter import (
    BotAccount,
    ChannelError,
    ChannelLimits,
    ChannelLoginRefused,
    ChannelRefused,
    ChatAddress,
    ChatButton,
    ChatSender,
    InboundUpdate,
    IncomingAttachment,
    join_status,
)
from deerflow.channels.feishu.api import FeishuApi, FeishuRefused
from deerflow.channels.feishu.cards import LIMITS, CardStreams, build_card, remember, split_text
from deerflow.channels.feishu.connection import ReceivedEvent, connect

logger = logging.getLogger(__name__)

MESSAGES = "/open-apis/im/v1/messages"
MESSAGE_EVENT, PRESS_EVENT = "im.message.receive_v1", "card.action.trigger"
MAX_IMAGE_BYTES = 10 * 2**20
IMAGES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tiff", ".ico"})
NAMED_KINDS: Mapping[str, str] = {"image": "photo-{}.jpg", "audio": "voice-{}.opus", "media": "video-{}.mp4"}
NAME_S = 1.0
"""Time limit of the name of a person: the acknowledgement waits for it."""
CONNECT = ("/connect", "/start")


class FeishuAdapter:
    """Client of one app."""

    name = "feishu"
    has_drafts = False
    command_mark = "/"

    def __init__(self, api: FeishuApi, language: str = "zh", limits: ChannelLimits = LIMITS) -> None:
        """`language` is that of people: events do not say it."""
        self.limits = limits
        self._api = api
        self._language = language
        self._cards = CardStreams(api)
        self._account = BotAccount("", "")
        self._bot_id = ""
        self._toasts: dict[str, str] = {}
        self._names: OrderedDict[str, str] = OrderedDict()

    async def log_in(self) -> BotAccount:
        """Return the app to which the credentials belong."""
        bot = (await self._api.call("GET", "/open-apis/bot/v3/info")).get("bot") or {}
        if not bot.get("open_id"):
            raise ChannelLoginRefused("the app has no bot: add the capability in the developer console")
        self._bot_id = str(bot["open_id"])
        self._account = BotAccount(self._api.app_id, str(bot.get("app_name") or self._api.app_id))
        return self._account

    async def receive(self) -> AsyncGenerator[Sequence[InboundUpdate]]:
        """Yield the events of the long connection. Each group is acknowledged when it is recorded."""
        self._toasts.clear()
        async with connect(self._api) as connection:
            yield ()
            while True:
                events = await connection.next_events()
                updates = [await self._read_event(each) for each in events]
                yield [update for update in updates if update is not None]
                for event, update in zip(events, updates, strict=True):
                    toast = self._toasts.pop(update.press_id, None) if update is not None else None
                    answer = None if toast is None else {"toast": {"type": "info", "content": toast}}
                    await connection.acknowledge(event, answer)

    def split(self, text: str) -> Sequence[str]:
        return split_text(text)

    async def send(self, address: ChatAddress, text: str, buttons: Sequence[ChatButton] = (), key: str = "") -> str:
        return await self._send(address, "interactive", build_card(text, buttons, address), key)

    async def find_sent(self, address: ChatAddress, key: str) -> str | None:
        raise ChannelRefused("Feishu does not tell what was sent")

    async def begin_stream(self, address: ChatAddress, text: str, status: str, stop: ChatButton, key: str) -> str:
        card_id = await self._cards.create(join_status(text, status), stop, address)
        message_id = await self._send(address, "interactive", {"type": "card", "data": {"card_id": card_id}}, key)
        self._cards.note(message_id, card_id)
        return message_id

    async def show_stream(
        self, address: ChatAddress, message_id: str, text: str, status: str, stop: ChatButton
    ) -> None:
        await self._cards.show(message_id, join_status(text, status))

    async def edit(self, address: ChatAddress, message_id: str, text: str, buttons: Sequence[ChatButton] = ()) -> None:
        try:
            await self._cards.close(message_id, text, buttons, address)
        except FeishuRefused:  # it was not sent as a card that is being written
            content = orjson.dumps(build_card(text, buttons, address)).decode()
            await self._api.call("PATCH", f"{MESSAGES}/{message_id}", {"content": content})

    async def show_draft(self, address: ChatAddress, draft_id: str, text: str) -> None:
        raise ChannelRefused("Feishu has no drafts")

    async def answer_press(self, press_id: str, text: str) -> None:
        """Keep the answer: it is part of the acknowledgement."""
        self._toasts[press_id] = text

    def download(self, attachment: IncomingAttachment) -> AsyncIterator[bytes]:
        message_id, kind, file_key = attachment.file_id.split("/", 2)
        return self._api.download(f"{MESSAGES}/{message_id}/resources/{file_key}", type=kind)

    async def send_file(
        self, address: ChatAddress, name: str, size: int, chunks: AsyncIterator[bytes], key: str = ""
    ) -> str:
        """Send a picture or a file. Pictures that are too large are sent as files."""
        if PurePosixPath(name).suffix.lower() in IMAGES:
            content = b"".join([chunk async for chunk in chunks])
            chunks = iterate(content)
            if 0 < len(content) <= MAX_IMAGE_BYTES:
                fields = {"image_type": "message"}
                image = await self._api.upload("/open-apis/im/v1/images", "image", name, chunks, fields)
                return await self._send(address, "image", {"image_key": image["image_key"]}, key)
        fields = {"file_type": "stream", "file_name": name}
        file = await self._api.upload("/open-apis/im/v1/files", "file", name, chunks, fields)
        return await self._send(address, "file", {"file_key": file["file_key"]}, key)

    async def aclose(self) -> None:
        await self._api.aclose()

    async def _send(self, address: ChatAddress, kind: str, content: Mapping[str, object], key: str) -> str:
        """Send a message to a chat, or into a topic, which is named by its first message."""
        body: dict[str, object] = {"msg_type": kind, "content": orjson.dumps(content).decode()}
        if key:
            body["uuid"] = md5(key.encode(), usedforsecurity=False).hexdigest()  # at most 50 characters
        if address.topic:
            body["reply_in_thread"] = True
            sent = await self._api.call("POST", f"{MESSAGES}/{address.topic}/reply", body)
        else:
            body["receive_id"] = address.chat
            sent = await self._api.call("POST", MESSAGES, body, receive_id_type="chat_id")
        return str(sent["message_id"])

    async def _read_event(self, received: ReceivedEvent) -> InboundUpdate | None:
        """Return an event of a kind that is used here. An event that cannot be read must not keep others away."""
        try:
            header, event = received.event["header"], received.event["event"]
            if header["event_type"] == MESSAGE_EVENT:
                return await self._read_message(event)
            if header["event_type"] == PRESS_EVENT:
                return await self._read_press(str(header["event_id"]), event)
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            logger.warning("an event of Feishu cannot be read: %r", problem)
        return None

    async def _read_message(self, event: Mapping[str, Any]) -> InboundUpdate | None:
        message, sender = event["message"], event["sender"]
        if sender.get("sender_type") != "user":
            return None
        message_id, mentions = str(message["message_id"]), message.get("mentions") or ()
        is_private = message["chat_type"] == "p2p"
        topic = str(message.get("root_id") or message_id) if message.get("thread_id") else ""
        content = orjson.loads(message["content"])
        text = self._replace_mentions(read_text(message["message_type"], content), mentions)
        person = str(sender["sender_id"]["open_id"])
        return InboundUpdate(
            message_id,
            "message",
            ChatAddress(self.name, self._account.account, str(message["chat_id"]), topic, is_private),
            ChatSender(person, await self._find_name(person, asks=text.startswith(CONNECT)), self._language),
            text,
            tuple(read_attachments(message_id, message["message_type"], content)),
            is_private or any(self._is_bot(mention) for mention in mentions),
            message_id,
        )

    async def _read_press(self, event_id: str, event: Mapping[str, Any]) -> InboundUpdate | None:
        value, context = event["action"]["value"], event["context"]
        person = str(event["operator"]["open_id"])
        chat, topic = str(context["open_chat_id"]), str(value.get("topic") or "")
        address = ChatAddress(self.name, self._account.account, chat, topic, bool(value.get("is_private")))
        return InboundUpdate(
            event_id,
            "press",
            address,
            ChatSender(person, await self._find_name(person, asks=True), self._language),
            str(value["data"]),
            message_id=str(context["open_message_id"]),
            press_id=event_id,
        )

    def _is_bot(self, mention: Mapping[str, Any]) -> bool:
        return bool((mention.get("id") or {}).get("open_id") == self._bot_id)

    def _replace_mentions(self, text: str, mentions: Sequence[Mapping[str, Any]]) -> str:
        """Return a text with the names of people in place of their keys, and without that of the bot."""
        for mention in sorted(mentions, key=lambda each: len(each["key"]), reverse=True):
            text = text.replace(mention["key"], "" if self._is_bot(mention) else f"@{mention.get('name', '')}")
        return text.strip()

    async def _find_name(self, open_id: str, *, asks: bool) -> str:
        """Return the name of a person; the end of their id if it is not known or the app may not read names."""
        if open_id not in self._names and asks:
            name = ""
            with suppress(ChannelError, TimeoutError):
                async with asyncio.timeout(NAME_S):
                    path = f"/open-apis/contact/v3/users/{open_id}"
                    found = await self._api.call("GET", path, user_id_type="open_id")
                    name = str((found.get("user") or {}).get("name") or "")
            remember(self._names, open_id, name)
        return self._names.get(open_id) or open_id[-6:]


def read_text(kind: str, content: Mapping[str, Any]) -> str:
    """Return the text of a message. Posts are paragraphs of texts, links and mentions."""
    if kind != "post":
        return str(content.get("text") or "")
    lines = ["".join(read_post_element(each) for each in paragraph) for paragraph in content.get("content") or ()]
    return "\n".join(line for line in (str(content.get("title") or ""), *lines) if line)


def read_post_element(element: Mapping[str, Any]) -> str:
    """Return the text of an element of a post."""
    if element.get("tag") == "a":
        return f"[{element.get('text', '')}]({element.get('href', '')})"
    if element.get("tag") == "at":
        return str(element.get("user_id", ""))  # the key of a mention
    return str(element.get("text") or "")


def read_attachments(message_id: str, kind: str, content: Mapping[str, Any]) -> Sequence[IncomingAttachment]:
    """Return the files of a message; of a post, its pictures."""
    if kind == "post":
        elements = [element for paragraph in content.get("content") or () for element in paragraph]
        keys = [element["image_key"] for element in elements if element.get("tag") == "img"]
        return [
            IncomingAttachment(f"{message_id}/image/{key}", f"photo-{key[-8:]}-{at}.jpg") for at, key in enumerate(keys)
        ]
    if kind == "image":
        key, source = content["image_key"], "image"
    elif kind in ("file", "audio", "media"):
        key, source = content["file_key"], "file"
    else:
        return []
    name = content.get("file_name") or NAMED_KINDS.get(kind, "file-{}").format(message_id[-8:])
    return [IncomingAttachment(f"{message_id}/{source}/{key}", str(name))]


async def iterate(content: bytes) -> AsyncIterator[bytes]:
    """Yield content as one chunk."""
    yield content
