"""Rows of chat apps: people, codes, chats, received updates and messages to be sent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, CursorResult, Row, delete, insert, select, update

from deerflow.accounts.model import hash_secret
from deerflow.channels.adapter import ChatAddress
from deerflow.domain.errors import Conflict, NotFound
from deerflow.domain.runs import RunRecord
from deerflow.persistence.tables import (
    channel_chats,
    channel_codes,
    channel_inbound,
    channel_outbox,
    channel_people,
    insert_or_ignore,
    runs,
    to_key,
)

KEEP = timedelta(days=7)
"""Time for which received updates are known. Platforms send an update again for a day at most."""

OutgoingKind = Literal["answer", "text", "file", "question"]
OutgoingState = Literal["pending", "sending", "sent", "unknown", "failed"]
SHOWN, SHOWN_HASH = "shown", "shown_hash"
"""Details of an answer: length and hash of the text that stands in messages that have ended."""
AGAIN = "again"
"""Detail of a message: how often it was sent, known to have arrived, and deleted by the person."""
OPEN: tuple[OutgoingState, ...] = ("pending", "sending")


class AlreadyReceived(Conflict):
    """The update was received before; what it asks for is done."""


@dataclass(frozen=True, slots=True)
class ChannelPerson:
    """Person of a chat app and the user whose rights they have."""

    channel: str
    account: str
    external_id: str
    owner: str
    name: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ChatThread:
    """Thread of a person in a chat, and the settings of its runs."""

    address: ChatAddress
    owner: str
    thread_id: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """Message to be sent. Answers have no `body`: they are read from the log of their run."""

    address: ChatAddress
    owner: str
    kind: OutgoingKind
    run_id: str | None = None
    thread_id: str | None = None
    part: int = 0
    repeats: int = 0
    """Number of messages with the same content whose outcome is unknown."""
    body: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    message_id: str | None = None
    state: OutgoingState = "pending"
    number: int = 0
    changed_at: datetime | None = None
    """Time at which `state` was recorded."""

    @property
    def key(self) -> str:
        """Key with which the message is sent, each time it is sent."""
        shown, again = self.details.get(SHOWN, 0), self.details.get(AGAIN, 0)
        return f"{self.run_id or self.number}.{self.kind}.{self.part}.{self.repeats}.{shown}.{again}"


def keep_shown(details: Mapping[str, Any], text: str) -> Mapping[str, Any]:
    """Return the details of a message that goes on after `text`, which an ended one shows."""
    return {**details, SHOWN: len(text), SHOWN_HASH: hash_secret(text)}


def cut_shown(details: Mapping[str, Any], text: str) -> str:
    """Return the part of an answer that stands in no ended message."""
    count = details.get(SHOWN, 0)
    return text[count:] if count and hash_secret(text[:count]) == details.get(SHOWN_HASH) else text


def insert_code(connection: Connection, owner: str, code_hash: str, expires_at: datetime) -> None:
    """Store a code with which a person connects their chat account to a user; forget expired ones."""
    connection.execute(delete(channel_codes).where(channel_codes.c.expires_at < datetime.now(UTC)))
    connection.execute(insert(channel_codes).values(code_hash=code_hash, owner=owner, expires_at=expires_at))


def redeem_code(connection: Connection, code_hash: str, person: ChannelPerson, received: "ReceivedUpdate") -> str:
    """Connect a person to the user of a code and return the user. The code is then used up.

    Raises:
        NotFound: There is no such code, or no more.
        AlreadyReceived: The update was received before.
    """
    chosen = channel_codes.c.code_hash == code_hash
    row = connection.execute(select(channel_codes).where(chosen)).first()
    if (
        row is None
        or row.expires_at < datetime.now(UTC)
        or not connection.execute(delete(channel_codes).where(chosen)).rowcount
    ):
        raise NotFound("the code is wrong, used, or older than ten minutes")
    record_received(connection, row.owner, received)
    connection.execute(delete(channel_people).where(match_person(person.channel, person.account, person.external_id)))
    values = {"channel": person.channel, "account": person.account, "external_id": person.external_id}
    named = {"owner": row.owner, "name": to_key(person.name), "created_at": person.created_at}
    connection.execute(insert(channel_people).values(**values, **named))
    return str(row.owner)


def find_person(connection: Connection, channel: str, account: str, external_id: str) -> ChannelPerson | None:
    """Return a person of a chat app."""
    row = connection.execute(select(channel_people).where(match_person(channel, account, external_id))).first()
    return None if row is None else ChannelPerson(**row._mapping)


def match_person(channel: str, account: str, external_id: str) -> ColumnElement[bool]:
    """Return the condition for a person."""
    table = channel_people.c
    return (table.channel == channel) & (table.account == account) & (table.external_id == external_id)


def list_people(connection: Connection, owner: str) -> Sequence[ChannelPerson]:
    """Return the chat accounts of a user, oldest first."""
    query = select(channel_people).where(channel_people.c.owner == owner).order_by(channel_people.c.created_at)
    return [ChannelPerson(**row._mapping) for row in connection.execute(query)]


def delete_person(connection: Connection, owner: str, channel: str, external_id: str) -> None:
    """Disconnect a chat account of a user, or raise `NotFound`."""
    table = channel_people.c
    chosen = (table.owner == owner) & (table.channel == channel) & (table.external_id == external_id)
    if not connection.execute(delete(channel_people).where(chosen)).rowcount:
        raise NotFound(f"no account {external_id!r} of {channel!r}")


@dataclass(frozen=True, slots=True)
class ReceivedUpdate:
    """Update of a platform, by its id there."""

    channel: str
    account: str
    update_id: str


def is_received(connection: Connection, received: ReceivedUpdate) -> bool:
    """Return whether an update was received before."""
    table = channel_inbound.c
    chosen = (table.channel == received.channel) & (table.account == received.account)
    query = select(table.update_id).where(chosen, table.update_id == received.update_id)
    return connection.execute(query).first() is not None


@dataclass(frozen=True, slots=True)
class StartedRun:
    """Run that a delivery of a webhook has started."""

    thread_id: str
    run_id: str


def find_started(connection: Connection, received: ReceivedUpdate) -> StartedRun | None:
    """Return the run of a delivery that was received before."""
    table = channel_inbound.c
    chosen = (table.channel == received.channel) & (table.account == received.account)
    query = select(runs.c.thread_id, runs.c.run_id).join(channel_inbound, table.run_id == runs.c.run_id)
    row = connection.execute(query.where(chosen, table.update_id == received.update_id)).first()
    return None if row is None else StartedRun(row.thread_id, row.run_id)


def record_received(connection: Connection, owner: str, received: ReceivedUpdate, run_id: str | None = None) -> None:
    """Record an update, or raise `AlreadyReceived`."""
    row: dict[str, Any] = {"channel": received.channel, "account": received.account, "update_id": received.update_id}
    row |= {"owner": owner, "run_id": run_id, "received_at": datetime.now(UTC)}
    if not insert_or_ignore(connection, channel_inbound, row):
        raise AlreadyReceived(f"update {received.update_id!r} was received before")


def forget_old_updates(connection: Connection) -> None:
    """Delete updates and sent messages that no platform sends again."""
    limit = datetime.now(UTC) - KEEP
    connection.execute(delete(channel_inbound).where(channel_inbound.c.received_at < limit))
    table = channel_outbox.c
    connection.execute(delete(channel_outbox).where(table.updated_at < limit, table.state.not_in(OPEN)))


def find_chat(connection: Connection, address: ChatAddress, owner: str) -> ChatThread | None:
    """Return the thread of a user in a chat."""
    row = connection.execute(select(channel_chats).where(match_chat(address, owner))).first()
    return None if row is None else ChatThread(address, owner, row.thread_id, row.settings)


def find_own_chat(connection: Connection, channel: str, owner: str) -> ChatAddress:
    """Return the chat in which a user has written to a bot last: the private one if there is one.

    Raises:
        NotFound: The user has not written to the bot.
    """
    table = channel_chats.c
    people = select(channel_people.c.external_id).where(
        channel_people.c.owner == owner, channel_people.c.channel == channel
    )
    query = select(channel_chats).where(table.owner == owner, table.channel == channel)
    row = connection.execute(query.order_by(table.chat.in_(people).desc(), table.updated_at.desc())).first()
    if row is None:
        raise NotFound("there is no chat with you yet: write to the bot first")
    return ChatAddress(row.channel, row.account, row.chat, row.topic)


def match_chat(address: ChatAddress, owner: str) -> ColumnElement[bool]:
    """Return the condition for the thread of a user in a chat."""
    table = channel_chats.c
    place = (table.chat == address.chat) & (table.topic == address.topic)
    return (table.channel == address.channel) & (table.account == address.account) & place & (table.owner == owner)


def save_chat(connection: Connection, owner: str, chat: ChatThread) -> None:
    """Store thread and settings of a user in a chat."""
    values = {"thread_id": chat.thread_id, "settings": dict(chat.settings), "updated_at": datetime.now(UTC)}
    if not connection.execute(update(channel_chats).where(match_chat(chat.address, owner)).values(values)).rowcount:
        connection.execute(insert(channel_chats).values(**place_of(chat.address), owner=owner, **values))


def place_of(address: ChatAddress) -> dict[str, str]:
    """Return the columns of an address."""
    return {"channel": address.channel, "account": address.account, "chat": address.chat, "topic": address.topic}


def record_message(
    connection: Connection,
    run: RunRecord,
    received: ReceivedUpdate,
    chat: ChatThread,
    language: str,
    answered: tuple[OutgoingMessage, str] | None = None,
) -> None:
    """Record an update with its run, and that the answer of the run is to be sent.

    `answered` is the question that the update answers, and by whom it was answered.
    """
    record_received(connection, run.owner, received, run.run_id)
    save_chat(connection, run.owner, chat)
    if answered is not None:
        question, by = answered
        details = {**question.details, "is_private": question.address.is_private, "answered": by}
        change_outgoing(connection, run.owner, question.number, {"details": details, "body": None})
    details = {"language": language}
    answer = OutgoingMessage(chat.address, run.owner, "answer", run.run_id, run.thread_id, details=details)
    insert_outgoing(connection, run.owner, [answer])


def record_delivery(connection: Connection, run: RunRecord, received: ReceivedUpdate, chat: ChatThread | None) -> None:
    """Record the delivery of a webhook with its run, and the thread of later ones; forget old deliveries."""
    table = channel_inbound.c
    same = (table.owner == run.owner) & (table.channel == received.channel) & (table.account == received.account)
    connection.execute(delete(channel_inbound).where(same, table.received_at < datetime.now(UTC) - KEEP))
    record_received(connection, run.owner, received, run.run_id)
    if chat is not None:
        save_chat(connection, run.owner, chat)


def record_command(
    connection: Connection, owner: str, received: ReceivedUpdate, reply: OutgoingMessage, chat: ChatThread | None
) -> Sequence[OutgoingMessage]:
    """Record a command with its effect on the chat and its reply."""
    record_received(connection, owner, received)
    if chat is not None:
        save_chat(connection, owner, chat)
    return insert_outgoing(connection, owner, [reply])


def insert_outgoing(
    connection: Connection, owner: str, messages: Sequence[OutgoingMessage]
) -> Sequence[OutgoingMessage]:
    """Insert messages to be sent, and return them with their numbers."""
    inserted = []
    for message in messages:
        values: dict[str, Any] = {
            **place_of(message.address),
            "owner": owner,
            "kind": message.kind,
            "state": message.state,
        }
        values |= {"run_id": message.run_id, "thread_id": message.thread_id, "part": message.part}
        values |= {"repeats": message.repeats, "body": message.body, "message_id": message.message_id}
        shown = {"is_private": message.address.is_private, **message.details}
        done = connection.execute(insert(channel_outbox).values(**values, details=shown, updated_at=datetime.now(UTC)))
        inserted.append(find_outgoing(connection, owner, read_key(done)))
    return inserted


def find_outgoing(connection: Connection, owner: str, number: int) -> OutgoingMessage:
    """Return a message of a user, or raise `NotFound`."""
    chosen = (channel_outbox.c.number == number) & (channel_outbox.c.owner == owner)
    row = connection.execute(select(channel_outbox).where(chosen)).first()
    if row is None:
        raise NotFound(f"no message {number}")
    return to_outgoing(row)


def list_open(
    connection: Connection, channel: str, account: str, kind: OutgoingKind | None = None
) -> Sequence[OutgoingMessage]:
    """Return the messages of all people that are still to be sent, or those of a kind, oldest first."""
    table = channel_outbox.c
    chosen = (table.channel == channel) & (table.account == account) & table.state.in_(OPEN)
    if kind is not None:
        chosen &= table.kind == kind
    query = select(channel_outbox).where(chosen).order_by(table.number)
    return [to_outgoing(row) for row in connection.execute(query)]


def list_of_run(connection: Connection, owner: str, run_id: str) -> Sequence[OutgoingMessage]:
    """Return the messages of a run, oldest first."""
    table = channel_outbox.c
    query = select(channel_outbox).where(table.owner == owner, table.run_id == run_id).order_by(table.number)
    return [to_outgoing(row) for row in connection.execute(query)]


def change_outgoing(connection: Connection, owner: str, number: int, values: Mapping[str, Any]) -> None:
    """Change a message of a user: what is known of it."""
    chosen = (channel_outbox.c.number == number) & (channel_outbox.c.owner == owner)
    connection.execute(update(channel_outbox).where(chosen).values(**values, updated_at=datetime.now(UTC)))


def repeat_outgoing(connection: Connection, owner: str, message: OutgoingMessage) -> OutgoingMessage:
    """Record that the outcome of a message is unknown, and a message that repeats it and says so."""
    change_outgoing(connection, owner, message.number, {"state": "unknown", "body": None})
    again = OutgoingMessage(
        message.address,
        owner,
        message.kind,
        message.run_id,
        message.thread_id,
        message.part,
        message.repeats + 1,
        message.body,
        message.details,
    )
    return insert_outgoing(connection, owner, [again])[0]


def to_outgoing(row: Row[Any]) -> OutgoingMessage:
    """Return a message from its row."""
    details = dict(row.details)
    address = ChatAddress(row.channel, row.account, row.chat, row.topic, bool(details.pop("is_private", True)))
    return OutgoingMessage(
        address,
        row.owner,
        row.kind,
        row.run_id,
        row.thread_id,
        row.part,
        row.repeats,
        row.body,
        details,
        row.message_id,
        row.state,
        row.number,
        row.updated_at,
    )


def read_key(done: CursorResult[Any]) -> int:
    """Return the key of an inserted row."""
    key = done.inserted_primary_key
    assert key is not None
    return int(key[0])
