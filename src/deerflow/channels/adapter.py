"""Interface between chat apps and the channels: an adapter translates one platform, and knows nothing of runs."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from deerflow.domain.errors import DeerFlowError


class ChannelError(DeerFlowError):
    """A chat platform could not be used."""


class ChannelUnreachable(ChannelError):
    """The request did not reach the platform, so nothing has happened."""


class ChannelOutcomeUnknown(ChannelError):
    """The connection ended before the platform answered: the request may have been carried out."""


class ChannelRefused(ChannelError):
    """The platform refused the request; the text says why."""


class ChannelStreamEnded(ChannelRefused):
    """The platform has ended a message that was being written. It keeps the text that was shown."""


class ChannelLoginRefused(ChannelRefused):
    """The platform does not accept the credentials."""


class ChannelTaken(ChannelError):
    """Another program receives the messages of this account."""


class ChannelFlooded(ChannelError):
    """The platform wants no request before `retry_after_s` have passed."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class ChatAddress:
    """Chat of an account of this server; `topic` is a part of the chat that has messages of its own, or empty."""

    channel: str
    account: str
    chat: str
    topic: str = ""
    is_private: bool = field(default=True, compare=False)
    """True if nobody else is in the chat."""


@dataclass(frozen=True, slots=True)
class ChatSender:
    """Person who has written or pressed a button."""

    external_id: str
    name: str
    language: str = "en"


@dataclass(frozen=True, slots=True)
class IncomingAttachment:
    """File of a message, which is still on the server of the platform."""

    file_id: str
    name: str
    size: int | None = None


@dataclass(frozen=True, slots=True)
class InboundUpdate:
    """Message, pressed button or order to stop.

    `update_id` is that of the platform: an update that it sends again has the same.
    """

    update_id: str
    kind: Literal["message", "press", "stop"]
    address: ChatAddress
    sender: ChatSender
    text: str = ""
    """Text of a message, without the mention of the bot; or the data of the button."""
    attachments: Sequence[IncomingAttachment] = ()
    is_addressed: bool = True
    """False for messages in a group that are not meant for the bot."""
    message_id: str = ""
    """Message in which the button is, or the draft that is to be stopped."""
    press_id: str = ""
    follows: bool = False
    """True for a message in a topic without mention: it is for the bot if the sender has a thread there."""


@dataclass(frozen=True, slots=True)
class ChatButton:
    """Button below a message; `data` comes back when it is pressed."""

    label: str
    data: str


@dataclass(frozen=True, slots=True)
class BotAccount:
    """Account of this server on a platform."""

    account: str
    name: str


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    """Limits of a platform."""

    private_interval_s: float = 1.0
    """Time between two writes in a private chat."""
    group_interval_s: float = 3.0
    draft_life_s: float = 30.0
    """Time after which a draft disappears unless it is sent again."""
    idempotent_s: float = 0.0
    """Time for which the platform knows the key of a message: one that is sent again is not shown twice."""
    max_download_bytes: int = 20 * 2**20
    max_upload_bytes: int = 50 * 2**20


class ChannelAdapter(Protocol):
    """Client of one platform. All methods but `receive` raise `ChannelError`s."""

    name: str
    limits: ChannelLimits
    has_drafts: bool
    """True if private chats show a text while it is being written, without a message."""
    command_mark: str
    """First character of a command as people can send it: `/`, or what the platform leaves to bots."""

    async def log_in(self) -> BotAccount:
        """Return the account to which the credentials belong."""

    def receive(self) -> AsyncGenerator[Sequence[InboundUpdate]]:
        """Yield updates in their order. Asking for more confirms those before.

        Raises:
            ChannelError: The connection is lost. The next call yields what is not confirmed.
        """

    def split(self, text: str) -> Sequence[str]:
        """Return Markdown as parts that the platform takes as one message each."""

    async def send(self, address: ChatAddress, text: str, buttons: Sequence[ChatButton] = (), key: str = "") -> str:
        """Send one part and return the id of the message. A message that is sent again has the same `key`."""

    async def find_sent(self, address: ChatAddress, key: str) -> str | None:
        """Return the id of the message that was sent with a key; None if there is none.

        Raises:
            ChannelRefused: The platform does not tell.
        """

    async def begin_stream(self, address: ChatAddress, text: str, status: str, stop: ChatButton, key: str) -> str:
        """Send a text that is being written, with what is being done and a button to stop. Return its id."""

    async def show_stream(
        self, address: ChatAddress, message_id: str, text: str, status: str, stop: ChatButton
    ) -> None:
        """Show more of a text that is being written. `edit` ends it.

        Raises:
            ChannelStreamEnded: The message takes no more text.
        """

    async def edit(self, address: ChatAddress, message_id: str, text: str, buttons: Sequence[ChatButton] = ()) -> None:
        """Replace a message. Doing it twice is the same as once.

        Raises:
            ChannelRefused: There is no such message any more.
        """

    async def show_draft(self, address: ChatAddress, draft_id: str, text: str) -> None:
        """Show a text that is being written, with a button to stop."""

    async def answer_press(self, press_id: str, text: str) -> None:
        """Show a short text to the person who has pressed a button."""

    def download(self, attachment: IncomingAttachment) -> AsyncIterator[bytes]:
        """Yield the content of a file."""

    async def send_file(
        self, address: ChatAddress, name: str, size: int, chunks: AsyncIterator[bytes], key: str = ""
    ) -> str:
        """Send a file and return the id of the message."""

    async def aclose(self) -> None:
        """Close the connections."""


def join_status(text: str, status: str) -> str:
    """Return a text and, below it, what is being done."""
    return "\n\n".join(part for part in (text, status) if part) or "…"
