"""Slack as a channel: Socket Mode, messages that are streamed or edited, buttons and files."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from deerflow.channels.adapter import (
    BotAccount,
    ChannelError,
    ChannelLimits,
    ChannelRefused,
    ChannelStreamEnded,
    ChatAddress,
    ChatButton,
    ChatSender,
    InboundUpdate,
    IncomingAttachment,
    join_status,
)
from deerflow.channels.slack.api import SlackApi
from deerflow.channels.slack.events import SlackReader
from deerflow.channels.slack.socket import SlackSocket
from deerflow.channels.splitting import split_markdown

LIMITS = ChannelLimits(private_interval_s=1.2, group_interval_s=1.2, max_download_bytes=50 * 2**20)
MAX_CHARS = 12_000
"""Length of the longest Markdown in a message."""
MAX_STREAM_CHARS = 11_000
"""Length after which a stream takes no more text; the rest follows when the answer is complete."""
MAX_FALLBACK_CHARS = 3000
MAX_LABEL_CHARS = 75
MAX_REMEMBERED = 1000
NOT_STREAMING = "message_not_in_streaming_state"
KEY_EVENT = "deerflow_message"
Key = TypeVar("Key")
Value = TypeVar("Value")
LOOK_BACK = 100
"""Number of messages that are searched for one whose outcome is unknown."""


@dataclass(frozen=True, slots=True)
class OpenStream:
    """Message that is being streamed: all that it shows, and the end of it that is still the current text."""

    shown: str
    text: str
    status: str


class SlackAdapter:
    """Client of one Slack app in one workspace."""

    name = "slack"
    has_drafts = False
    command_mark = "!"

    def __init__(self, api: SlackApi, limits: ChannelLimits = LIMITS) -> None:
        self.limits = limits
        self._api = api
        self._socket = SlackSocket(api)
        self._reader = SlackReader(self.name, "", "")
        self._team = ""
        self._people: dict[str, ChatSender] = {}
        self._recipients: dict[ChatAddress, str] = {}
        """Person who has written last, by thread: streams in channels are for one."""
        self._streams: dict[str, OpenStream] = {}
        self._uploads: dict[str, str] = {}

    async def log_in(self) -> BotAccount:
        me = await self._api.call("auth.test")
        await self._socket.prepare()
        self._team = str(me["team_id"])
        account = f"{self._team}.{me['user_id']}"
        self._reader = SlackReader(self.name, account, str(me["user_id"]))
        return BotAccount(account, str(me.get("user") or me["user_id"]))

    async def receive(self) -> AsyncGenerator[Sequence[InboundUpdate]]:
        async for group in self._socket.receive():
            updates = [update for each in group if (update := self._reader.read(each)) is not None]
            yield [await self._complete(update) for update in updates]

    def split(self, text: str) -> Sequence[str]:
        return split_markdown(text, MAX_CHARS, len)

    async def send(self, address: ChatAddress, text: str, buttons: Sequence[ChatButton] = (), key: str = "") -> str:
        metadata = {"event_type": KEY_EVENT, "event_payload": {"key": key}} if key else None
        sent = await self._api.call("chat.postMessage", **place(address), **content(text, buttons), metadata=metadata)
        return str(sent["ts"])

    async def find_sent(self, address: ChatAddress, key: str) -> str | None:
        if key in self._uploads:
            return await self._find_upload(address, key)
        if ".file." in key:
            raise ChannelRefused("files have no keys")
        given = {"channel": address.chat, "limit": LOOK_BACK, "include_all_metadata": "true"}
        if address.topic:
            found = await self._api.read("conversations.replies", **given, ts=address.topic)
        else:
            found = await self._api.read("conversations.history", **given)
        for message in found.get("messages") or ():
            if has_key(message, key):
                return str(message["ts"])
        if found.get("has_more") and address.topic:  # replies are given oldest first
            raise ChannelRefused("the thread is too long to be searched")
        return None

    async def begin_stream(self, address: ChatAddress, text: str, status: str, stop: ChatButton, key: str) -> str:
        recipient = self._recipients.get(address)
        if not address.topic or recipient is None or len(text) > MAX_STREAM_CHARS:
            return await self.send(address, limit_text(join_status(text, status)), (stop,), key)
        chunks = [{"type": "blocks", "blocks": [build_actions([stop], key)]}, *build_chunks(text, status)]
        where = {**place(address), "recipient_user_id": recipient, "recipient_team_id": self._team}
        try:
            sent = await self._api.call("chat.startStream", **where, chunks=chunks)
        except ChannelRefused:  # a plan or a workspace without streams
            self._recipients.pop(address, None)
            return await self.send(address, limit_text(join_status(text, status)), (stop,), key)
        remember(self._streams, str(sent["ts"]), OpenStream(text, text, status))
        return str(sent["ts"])

    async def show_stream(
        self, address: ChatAddress, message_id: str, text: str, status: str, stop: ChatButton
    ) -> None:
        stream = self._streams.get(message_id)
        if stream is None:
            return await self.edit(address, message_id, limit_text(join_status(text, status)), (stop,))
        added = text[len(stream.text) :] if text.startswith(stream.text) else f"\n\n{text}"
        if len(stream.shown) + len(added) > MAX_STREAM_CHARS:
            return None
        chunks = build_chunks(added, "" if status == stream.status else status or "✓")
        if not chunks:
            return None
        try:
            await self._api.call("chat.appendStream", channel=address.chat, ts=message_id, chunks=chunks)
        except ChannelRefused as refused:
            if NOT_STREAMING not in str(refused):
                raise
            del self._streams[message_id]
            if not stream.shown:  # the message has no text yet: it is edited from now on
                return await self.edit(address, message_id, limit_text(join_status(text, status)), (stop,))
            await self._update(address, message_id, stream.shown)
            raise ChannelStreamEnded(str(refused)) from None
        self._streams[message_id] = OpenStream(stream.shown + added, text, status)
        return None

    async def edit(self, address: ChatAddress, message_id: str, text: str, buttons: Sequence[ChatButton] = ()) -> None:
        if message_id in self._streams:
            await self._stop_stream(address, message_id)
        try:
            await self._update(address, message_id, text, buttons)
        except ChannelRefused as refused:
            if "streaming" not in str(refused):
                raise
            await self._stop_stream(address, message_id)  # one that another process has begun
            await self._update(address, message_id, text, buttons)

    async def show_draft(self, address: ChatAddress, draft_id: str, text: str) -> None:
        raise ChannelRefused("Slack has no drafts")

    async def answer_press(self, press_id: str, text: str) -> None:
        chat, user, thread = press_id.split(" ")
        await self._api.call("chat.postEphemeral", channel=chat, user=user, thread_ts=thread or None, text=text)

    async def download(self, attachment: IncomingAttachment) -> AsyncIterator[bytes]:
        found = (await self._api.read("files.info", file=attachment.file_id))["file"]
        url = str(found.get("url_private_download") or found.get("url_private") or "")
        async for chunk in self._api.download(url, is_page=found.get("mimetype") == "text/html"):
            yield chunk

    async def send_file(
        self, address: ChatAddress, name: str, size: int, chunks: AsyncIterator[bytes], key: str = ""
    ) -> str:
        given = await self._api.read("files.getUploadURLExternal", filename=name, length=size)
        file_id = str(given["file_id"])
        await self._api.upload(str(given["upload_url"]), size, chunks)
        remember(self._uploads, key, file_id)
        where = {"channel_id": address.chat, "thread_ts": address.topic or None}
        await self._api.call("files.completeUploadExternal", **where, files=[{"id": file_id, "title": name}])
        self._uploads.pop(key, None)
        return file_id

    async def aclose(self) -> None:
        await self._api.aclose()

    async def _complete(self, update: InboundUpdate) -> InboundUpdate:
        """Return an update with name and language of the sender, and note for whom answers are streamed."""
        sender = await self._find_person(update.sender)
        remember(self._recipients, update.address, sender.external_id)
        return replace(update, sender=sender)

    async def _find_person(self, sender: ChatSender) -> ChatSender:
        """Return a person with name and language, or as far as they are known if Slack does not tell."""
        if sender.external_id not in self._people:
            with suppress(ChannelError):
                found = await self._api.read("users.info", user=sender.external_id, include_locale="true")
                sender = read_person(sender, found.get("user") or {})
            remember(self._people, sender.external_id, sender)
        return self._people[sender.external_id]

    async def _find_upload(self, address: ChatAddress, key: str) -> str | None:
        """Return the id of a file if the request that shows it in the chat was carried out."""
        found = await self._api.read("files.info", file=self._uploads[key])
        shares = (found.get("file") or {}).get("shares") or {}
        shown = {chat for kind in shares.values() for chat in kind}
        return self._uploads[key] if address.chat in shown else None

    async def _update(
        self, address: ChatAddress, message_id: str, text: str, buttons: Sequence[ChatButton] = ()
    ) -> None:
        await self._api.call("chat.update", channel=address.chat, ts=message_id, **content(text, buttons))

    async def _stop_stream(self, address: ChatAddress, message_id: str) -> None:
        """End a stream, so that its message can be edited."""
        try:
            await self._api.call("chat.stopStream", channel=address.chat, ts=message_id)
        except ChannelRefused as refused:
            if NOT_STREAMING not in str(refused):
                raise
        self._streams.pop(message_id, None)


def remember(table: dict[Key, Value], key: Key, value: Value) -> None:
    """Store a value, and forget the oldest one if there are many."""
    table.pop(key, None)
    table[key] = value
    if len(table) > MAX_REMEMBERED:
        del table[next(iter(table))]


def place(address: ChatAddress) -> dict[str, Any]:
    """Return the parameters that say where a message goes."""
    return {"channel": address.chat, "thread_ts": address.topic or None}


def content(markdown: str, buttons: Sequence[ChatButton] = ()) -> dict[str, Any]:
    """Return the parameters with text and buttons of a message; `text` is what notifications show."""
    blocks: list[dict[str, Any]] = [{"type": "markdown", "text": markdown or "…"}]
    if buttons:
        blocks.append(build_actions(buttons))
    return {"text": markdown[:MAX_FALLBACK_CHARS] or "…", "blocks": blocks, "unfurl_links": False}


def build_actions(buttons: Sequence[ChatButton], key: str = "") -> dict[str, Any]:
    """Return the block with the buttons of a message."""
    elements = [
        {
            "type": "button",
            "action_id": f"choice{at}",
            "text": {"type": "plain_text", "text": button.label[:MAX_LABEL_CHARS]},
            "value": button.data,
        }
        for at, button in enumerate(buttons)
    ]
    return {"type": "actions", "elements": elements, **({"block_id": key} if key else {})}


def build_chunks(text: str, status: str) -> list[dict[str, Any]]:
    """Return what is added to a stream. There is one line for the status."""
    chunks: list[dict[str, Any]] = []
    if status:
        state = "complete" if status == "✓" else "in_progress"
        chunks.append({"type": "task_update", "id": "status", "title": status, "status": state})
    if text:
        chunks.append({"type": "markdown_text", "text": text})
    return chunks


def limit_text(text: str) -> str:
    """Return the end of a text that is too long for a message while it is being written."""
    return text if len(text) <= MAX_CHARS else f"…{text[1 - MAX_CHARS :]}"


def has_key(message: Mapping[str, Any], key: str) -> bool:
    """Return whether a message was sent with a key."""
    metadata = message.get("metadata") or {}
    if metadata.get("event_type") == KEY_EVENT and (metadata.get("event_payload") or {}).get("key") == key:
        return True
    return any(block.get("block_id") == key for block in message.get("blocks") or ())


def read_person(sender: ChatSender, user: Mapping[str, Any]) -> ChatSender:
    """Return a person as Slack describes them."""
    profile = user.get("profile") or {}
    name = profile.get("display_name") or user.get("real_name") or user.get("name") or sender.name
    return ChatSender(sender.external_id, str(name), str(user.get("locale") or "en"))
