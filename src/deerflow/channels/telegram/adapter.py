"""Telegram as a channel: long polling, messages, drafts, buttons and files."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Any

from deerflow.channels.adapter import (
    BotAccount,
    ChannelLimits,
    ChannelRefused,
    ChatAddress,
    ChatButton,
    ChatSender,
    InboundUpdate,
    IncomingAttachment,
)
from deerflow.channels.telegram.api import TelegramApi
from deerflow.channels.telegram.markdown import MAX_UNITS, render_markdown, split_markdown

POLL_S = 50
"""Time for which Telegram keeps a request for updates open."""
UPDATE_TYPES = ("message", "callback_query", "stopped_message_generation")
MAX_PRESS_CHARS = 200
PRESS_EXPIRED = "query is too old"
NOT_MODIFIED = "message is not modified"


class TelegramAdapter:
    """Client of one bot."""

    name = "telegram"
    has_drafts = True

    def __init__(self, api: TelegramApi, limits: ChannelLimits = ChannelLimits()) -> None:
        self.limits = limits
        self._api = api
        self._account = BotAccount("", "")
        self._offset = 0

    async def log_in(self) -> BotAccount:
        """Return the bot to which the token belongs. Webhooks, which exclude polling, are removed."""
        me = await self._api.call("getMe")
        await self._api.call("deleteWebhook", drop_pending_updates=False)
        self._account = BotAccount(str(me["id"]), str(me.get("username") or ""))
        return self._account

    async def receive(self) -> AsyncGenerator[Sequence[InboundUpdate]]:
        """Yield updates. The next request confirms them, because it has a higher offset."""
        while True:
            found = await self._api.call(
                "getUpdates", POLL_S, offset=self._offset, timeout=POLL_S, allowed_updates=UPDATE_TYPES
            )
            if found:
                updates = [self._read_update(each) for each in found]
                yield [update for update in updates if update is not None]
                self._offset = found[-1]["update_id"] + 1
            else:
                yield ()

    def split(self, text: str) -> Sequence[str]:
        return split_markdown(text)

    async def send(self, address: ChatAddress, text: str, buttons: Sequence[ChatButton] = (), key: str = "") -> str:
        sent = await self._api.call(
            "sendMessage", **place(address), **content(text), reply_markup=keyboard(buttons) if buttons else None
        )
        return str(sent["message_id"])

    async def begin_stream(self, address: ChatAddress, text: str, stop: ChatButton, key: str) -> str:
        return await self.send(address, text, (stop,))

    async def show_stream(self, address: ChatAddress, message_id: str, text: str, stop: ChatButton) -> None:
        await self.edit(address, message_id, text, (stop,))

    async def edit(self, address: ChatAddress, message_id: str, text: str, buttons: Sequence[ChatButton] = ()) -> None:
        try:
            await self._api.call(
                "editMessageText",
                chat_id=address.chat,
                message_id=int(message_id),
                **content(text),
                reply_markup=keyboard(buttons),
            )
        except ChannelRefused as refused:
            if NOT_MODIFIED not in str(refused):
                raise

    async def show_draft(self, address: ChatAddress, draft_id: str, text: str) -> None:
        await self._api.call(
            "sendMessageDraft",
            **place(address),
            **content(text),
            draft_id=int(draft_id),
            can_stop=True,
        )

    async def answer_press(self, press_id: str, text: str) -> None:
        try:
            await self._api.call("answerCallbackQuery", callback_query_id=press_id, text=text[:MAX_PRESS_CHARS])
        except ChannelRefused as refused:
            if PRESS_EXPIRED not in str(refused):
                raise

    def download(self, attachment: IncomingAttachment) -> AsyncIterator[bytes]:
        return self._api.download(attachment.file_id)

    async def send_file(self, address: ChatAddress, name: str, chunks: AsyncIterator[bytes], key: str = "") -> str:
        where = {key: str(value) for key, value in place(address).items() if value is not None}
        sent = await self._api.upload("sendDocument", "document", name, chunks, where)
        return str(sent["message_id"])

    async def aclose(self) -> None:
        await self._api.aclose()

    def _read_update(self, update: Mapping[str, Any]) -> InboundUpdate | None:
        """Return an update of a kind that is used here."""
        update_id = str(update["update_id"])
        if message := update.get("message"):
            return self._read_message(update_id, message)
        if press := update.get("callback_query"):
            return self._read_press(update_id, press)
        if stopped := update.get("stopped_message_generation"):
            address = self._address(stopped)
            sender = ChatSender(address.chat, "")  # drafts exist in private chats only, which have the id of the person
            return InboundUpdate(update_id, "stop", address, sender, message_id=str(stopped["draft_id"]))
        return None

    def _address(self, message: Mapping[str, Any]) -> ChatAddress:
        chat = message["chat"]
        topic = message.get("message_thread_id") if message.get("is_topic_message") else None
        is_private = chat.get("type", "private") == "private"
        return ChatAddress(self.name, self._account.account, str(chat["id"]), str(topic or ""), is_private)

    def _read_message(self, update_id: str, message: Mapping[str, Any]) -> InboundUpdate | None:
        sender = message.get("from")
        if not sender or sender.get("is_bot"):
            return None  # channel posts, and other bots
        address = self._address(message)
        text = message.get("text") or message.get("caption") or ""
        addressed = address.is_private or self._is_addressed(text, message)
        return InboundUpdate(
            update_id,
            "message",
            address,
            read_sender(sender),
            self._remove_mention(text),
            tuple(read_attachments(message)),
            addressed,
            str(message["message_id"]),
        )

    def _read_press(self, update_id: str, press: Mapping[str, Any]) -> InboundUpdate | None:
        message, data = press.get("message"), press.get("data")
        if not message or not data:
            return None
        return InboundUpdate(
            update_id,
            "press",
            self._address(message),
            read_sender(press["from"]),
            str(data),
            message_id=str(message["message_id"]),
            press_id=str(press["id"]),
        )

    def _is_addressed(self, text: str, message: Mapping[str, Any]) -> bool:
        """Return whether a message in a group mentions this bot, or replies to it."""
        replied = (message.get("reply_to_message") or {}).get("from") or {}
        return (
            str(replied.get("id")) == self._account.account
            or self._mention.lower() in text.lower().split()
            or any(word.lower().endswith(self._mention.lower()) and word.startswith("/") for word in text.split()[:1])
        )

    @property
    def _mention(self) -> str:
        return f"@{self._account.name}"

    def _remove_mention(self, text: str) -> str:
        """Return a text without the name of the bot, also where it follows a command."""
        words = text.split(" ")
        if words and words[0].startswith("/"):
            command, _, name = words[0].partition("@")
            words[0] = command if name.lower() == self._account.name.lower() else words[0]
        return " ".join(word for word in words if word.lower() != self._mention.lower()).strip()


def place(address: ChatAddress) -> dict[str, Any]:
    """Return the parameters that say where a message goes."""
    return {"chat_id": address.chat, "message_thread_id": int(address.topic) if address.topic else None}


def content(markdown: str) -> dict[str, Any]:
    """Return the parameters with the text of a message."""
    rendered = render_markdown(markdown)
    if rendered.units > MAX_UNITS:  # the beginning of a text that is still being written
        rendered = render_markdown(split_markdown(markdown)[-1])
    return {
        "text": rendered.text or "…",
        "entities": [each.to_json() for each in rendered.entities],
        "link_preview_options": {"is_disabled": True},
    }


def keyboard(buttons: Sequence[ChatButton]) -> dict[str, Any]:
    """Return the buttons below a message, one in each row."""
    return {"inline_keyboard": [[{"text": button.label, "callback_data": button.data}] for button in buttons]}


def read_sender(person: Mapping[str, Any]) -> ChatSender:
    """Return the sender of a message."""
    names = (person.get("first_name"), person.get("last_name"))
    name = " ".join(each for each in names if each) or str(person.get("username") or person["id"])
    return ChatSender(str(person["id"]), name, str(person.get("language_code") or "en"))


def read_attachments(message: Mapping[str, Any]) -> Sequence[IncomingAttachment]:
    """Return the files of a message: a document, or the largest size of a picture."""
    if document := message.get("document"):
        name = document.get("file_name") or f"file-{message['message_id']}"
        return [IncomingAttachment(document["file_id"], name, document.get("file_size"))]
    if sizes := message.get("photo"):
        largest = max(sizes, key=lambda size: size["width"] * size["height"])
        return [IncomingAttachment(largest["file_id"], f"photo-{message['message_id']}.jpg", largest.get("file_size"))]
    return []
