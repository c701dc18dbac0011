"""Envelopes of Slack as updates: messages, commands and pressed buttons."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deerflow.channels.adapter import ChatAddress, ChatSender, InboundUpdate, IncomingAttachment

SUBTYPES = (None, "file_share", "thread_broadcast")
"""Kinds of messages that people write; others say that something has happened."""
MARKUP = re.compile(r"<([^<>\n]*)>")
CODE = re.compile(r"connect\s+[A-Za-z0-9]{10}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SlackReader:
    """Reads the envelopes for one bot."""

    channel: str
    account: str
    user: str
    """Id of the bot as a user."""

    def read(self, envelope: Mapping[str, Any]) -> InboundUpdate | None:
        """Return the update of an envelope if it has one that is used here."""
        payload = envelope.get("payload") or {}
        match envelope.get("type"):
            case "events_api":
                event = payload.get("event") or {}
                if event.get("type") in ("message", "app_mention"):
                    return self._read_message(event)
            case "interactive" if payload.get("type") == "block_actions":
                return self._read_press(payload)
            case "slash_commands":
                return self._read_command(payload)
        return None

    def _read_message(self, event: Mapping[str, Any]) -> InboundUpdate | None:
        """Return a message. One with a mention arrives as two events; both have the same id."""
        sender, chat, ts = event.get("user"), event.get("channel"), event.get("ts")
        if not sender or not chat or not ts or sender == self.user or event.get("bot_id"):
            return None
        if event.get("subtype") not in SUBTYPES:
            return None
        text = str(event.get("text") or "")
        is_private = is_direct(str(chat))
        thread = find_thread(event)
        is_mention = event.get("type") == "app_mention" or f"<@{self.user}>" in text
        topic = thread if is_private else thread or str(ts)
        return InboundUpdate(
            f"{chat}:{ts}",
            "message",
            self._address(str(chat), topic),
            ChatSender(str(sender), str(sender)),
            read_command(self._remove_mention(text)),
            tuple(read_attachments(event)),
            is_private or is_mention or bool(thread),
            str(ts),
            follows=not is_private and not is_mention,
        )

    def _read_press(self, payload: Mapping[str, Any]) -> InboundUpdate | None:
        message, user = payload.get("message") or {}, payload.get("user") or {}
        chat = str((payload.get("channel") or {}).get("id") or "")
        action = next(iter(payload.get("actions") or ()), None)
        if not action or not message.get("ts") or not chat or not user.get("id"):
            return None
        thread = find_thread(message)
        name = str(user.get("name") or user.get("username") or user["id"])
        return InboundUpdate(
            f"{chat}:{message['ts']}:{user['id']}:{action.get('action_ts')}",
            "press",
            self._address(chat, thread),
            ChatSender(str(user["id"]), name),
            str(action.get("value") or ""),
            message_id=str(message["ts"]),
            press_id=f"{chat} {user['id']} {thread}",
        )

    def _read_command(self, payload: Mapping[str, Any]) -> InboundUpdate | None:
        chat, sender = str(payload.get("channel_id") or ""), str(payload.get("user_id") or "")
        if not chat or not sender or not payload.get("trigger_id"):
            return None
        text = f"{payload.get('command') or ''} {payload.get('text') or ''}".strip()
        name = str(payload.get("user_name") or sender)
        address = self._address(chat, "")
        return InboundUpdate(f"command:{payload['trigger_id']}", "message", address, ChatSender(sender, name), text)

    def _address(self, chat: str, topic: str) -> ChatAddress:
        return ChatAddress(self.channel, self.account, chat, topic, is_direct(chat))

    def _remove_mention(self, text: str) -> str:
        return plain_text(text.replace(f"<@{self.user}>", " ")).strip()


def is_direct(chat: str) -> bool:
    """Return whether a chat is one with a single person."""
    return chat.startswith("D")


def find_thread(message: Mapping[str, Any]) -> str:
    """Return the thread in which a message is a reply; empty if it is none, also when there are replies to it."""
    thread = str(message.get("thread_ts") or "")
    return "" if thread == message.get("ts") and is_direct(str(message.get("channel") or "D")) else thread


def read_command(text: str) -> str:
    """Return a command with the slash that Slack keeps for itself: it does not send messages that begin with one."""
    if CODE.fullmatch(text):
        return f"/{text.lower()}"
    if re.match(r"![A-Za-z]", text):
        return f"/{text[1:]}"
    return text


def plain_text(text: str) -> str:
    """Return a text of Slack without its markup for links and names."""
    shown = MARKUP.sub(lambda found: read_link(found[1]), text)
    return shown.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def read_link(content: str) -> str:
    """Return what stands for a link, a person, a channel or a group."""
    target, _, label = content.partition("|")
    if target.startswith(("@", "#", "!")):
        return f"{target[0] if target[0] != '!' else '@'}{label or target[1:]}"
    if not label or label in target:
        return target.removeprefix("mailto:")
    return f"{label} ({target})"


def read_attachments(event: Mapping[str, Any]) -> Iterator[IncomingAttachment]:
    """Yield the files of a message."""
    files: Sequence[Mapping[str, Any]] = event.get("files") or ()
    for file in files:
        if file.get("mode") not in ("tombstone", "hidden_by_limit"):
            file_id = str(file.get("id") or "")
            yield IncomingAttachment(file_id, str(file.get("name") or file_id), file.get("size"))
