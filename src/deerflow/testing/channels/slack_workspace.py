"""Workspace of a fake Slack: its messages, streams and files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

BOT, TEAM = "UBOT", "T1"
MAX_CHARS = 12_000


@dataclass(slots=True)
class SlackMessage:
    """Message as people see it now."""

    ts: str
    chat: str
    thread: str
    text: str = ""
    blocks: Sequence[Mapping[str, Any]] = ()
    metadata: Mapping[str, Any] | None = None
    status: str = ""
    is_streaming: bool = False
    file: bytes | None = None
    file_name: str | None = None
    history: list[str] = field(default_factory=list)
    """Texts before the current one."""

    @property
    def buttons(self) -> Sequence[Mapping[str, Any]]:
        return [each for block in self.blocks if block["type"] == "actions" for each in block["elements"]]


@dataclass(slots=True)
class FakeWorkspace:
    """What the methods of the Web API change."""

    has_streams: bool = True
    host: str = ""
    messages: dict[str, SlackMessage] = field(default_factory=dict)
    ephemeral: list[tuple[str, str]] = field(default_factory=list)
    """Texts that only one person sees, with the person."""
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    _shared: dict[str, str] = field(default_factory=dict)
    _last: int = 1000

    def next_ts(self) -> str:
        """Return the timestamp of a new message."""
        self._last += 1
        return f"1700000000.{self._last:06}"

    def add_file(self, name: str, content: bytes) -> str:
        """Store a file and return its id."""
        file_id = f"F{len(self.files)}"
        self.files[file_id] = (name, content)
        return file_id

    def in_chat(self, chat: str) -> list[SlackMessage]:
        """Return the messages of the bot in a chat, oldest first."""
        return [message for message in self.messages.values() if message.chat == chat]

    def execute(self, method: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Carry out a method of the Web API and return the body of its response."""
        handlers: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
            "auth.test": lambda _: {"ok": True, "user_id": BOT, "team_id": TEAM, "user": "deer", "bot_id": "B1"},
            "apps.connections.open": lambda _: {"ok": True, "url": f"ws://{self.host}/link"},
            "users.info": describe_user,
            "chat.postMessage": self._post,
            "chat.update": self._update,
            "chat.startStream": self._start_stream,
            "chat.appendStream": self._append_stream,
            "chat.stopStream": self._stop_stream,
            "chat.postEphemeral": self._post_ephemeral,
            "conversations.history": self._list_messages,
            "conversations.replies": self._list_messages,
            "files.info": self._describe_file,
            "files.getUploadURLExternal": self._offer_upload,
            "files.completeUploadExternal": self._complete_upload,
        }
        handler = handlers.get(method)
        return problem("unknown_method") if handler is None else handler(parameters)

    def _post(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        if error := check_blocks(parameters):
            return problem(error)
        message = self._add(parameters)
        return self._show(message, parameters)

    def _add(self, parameters: Mapping[str, Any]) -> SlackMessage:
        chat = str(parameters.get("channel") or parameters.get("channel_id"))
        message = SlackMessage(self.next_ts(), chat, str(parameters.get("thread_ts") or ""))
        self.messages[message.ts] = message
        return message

    @staticmethod
    def _show(message: SlackMessage, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        message.blocks = parameters.get("blocks") or ()
        marked = [block["text"] for block in message.blocks if block["type"] == "markdown"]
        message.text = "\n".join(marked) if message.blocks else str(parameters.get("text") or "")
        message.metadata = parameters.get("metadata") or message.metadata
        return {"ok": True, "channel": message.chat, "ts": message.ts}

    def _update(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        message = self.messages.get(str(parameters["ts"]))
        if message is None or message.chat != parameters["channel"]:
            return problem("message_not_found")
        if message.is_streaming:
            return problem("streaming_state_conflict")
        if error := check_blocks(parameters):
            return problem(error)
        message.history.append(message.text)
        return self._show(message, parameters)

    def _start_stream(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        chat = str(parameters["channel"])
        if not self.has_streams:
            return problem("channel_type_not_supported")
        if not parameters.get("thread_ts") and chat.startswith("D"):
            return problem("invalid_thread_ts")
        if not chat.startswith("D") and not (
            parameters.get("recipient_user_id") and parameters.get("recipient_team_id")
        ):
            return problem("missing_recipient_user_id")
        message = self._add(parameters)
        message.is_streaming = True
        return self._grow(message, parameters)

    def _append_stream(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        message = self.messages[str(parameters["ts"])]
        return self._grow(message, parameters) if message.is_streaming else problem("message_not_in_streaming_state")

    def _stop_stream(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        message = self.messages[str(parameters["ts"])]
        if not message.is_streaming:
            return problem("message_not_in_streaming_state")
        self._grow(message, parameters)
        message.is_streaming = False
        return {"ok": True, "channel": message.chat, "ts": message.ts}

    @staticmethod
    def _grow(message: SlackMessage, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        text = str(parameters.get("markdown_text") or "")
        for chunk in parameters.get("chunks") or ():
            match chunk["type"]:
                case "markdown_text":
                    text += chunk["text"]
                case "task_update":
                    message.status = chunk["title"]
                case "blocks":
                    message.blocks = [*message.blocks, *chunk["blocks"]]
        if len(text) > MAX_CHARS:
            return problem("msg_too_long")
        if text:
            message.history.append(message.text)
        message.text += text
        return {"ok": True, "channel": message.chat, "ts": message.ts}

    def _post_ephemeral(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        self.ephemeral.append((str(parameters["user"]), str(parameters["text"])))
        return {"ok": True, "message_ts": self.next_ts()}

    def _list_messages(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        thread = str(parameters.get("ts") or "")
        found = [message for message in self.in_chat(str(parameters["channel"])) if message.thread == thread]
        listed = [
            {"ts": message.ts, "text": message.text, "blocks": message.blocks, "metadata": message.metadata or {}}
            for message in found[-int(parameters["limit"]) :]
        ]
        return {"ok": True, "messages": listed if thread else listed[::-1], "has_more": False}

    def _describe_file(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        file_id = str(parameters["file"])
        if file_id not in self.files:
            return problem("file_not_found")
        name, content = self.files[file_id]
        url = f"http://{self.host}/files/{file_id}"
        shares: Mapping[str, Any] = {"private": {self._shared[file_id]: [{}]}} if file_id in self._shared else {}
        file = {"id": file_id, "name": name, "size": len(content), "url_private_download": url, "shares": shares}
        return {"ok": True, "file": file}

    def _offer_upload(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        file_id = self.add_file(str(parameters["filename"]), b"\0" * int(parameters["length"]))
        return {"ok": True, "file_id": file_id, "upload_url": f"http://{self.host}/upload/{file_id}"}

    def _complete_upload(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        for each in parameters["files"]:
            message = self._add(parameters)
            message.file_name, message.file = self.files[each["id"]]
            self._shared[each["id"]] = message.chat
        return {"ok": True, "files": list(parameters["files"])}


def describe_user(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a person; those whose id ends with `zh` speak Chinese."""
    user = str(parameters["user"])
    return {
        "ok": True,
        "user": {"id": user, "real_name": f"Person {user}", "locale": "zh-CN" if user.endswith("zh") else "en-US"},
    }


def check_blocks(parameters: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the blocks of a message."""
    blocks = parameters.get("blocks") or ()
    texts = [block["text"] for block in blocks if block["type"] == "markdown"]
    if sum(map(len, texts)) > MAX_CHARS:
        return "msg_blocks_too_long"
    if not blocks and not parameters.get("text"):
        return "no_text"
    return "invalid_blocks" if not all(texts) else None


def problem(error: str) -> Mapping[str, Any]:
    """Return the body of a response with an error."""
    return {"ok": False, "error": error}
