"""Tables of chat apps and webhooks: connections, people, chats, received updates and messages to be sent."""

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, LargeBinary, String, Table
from sqlalchemy.types import JSON

from deerflow.persistence.tables.runs import ROW_NUMBER, PlainText, UtcTime, metadata

# A person of a chat app, and the user whose rights they have. A person belongs to one user.
channel_people = Table(
    "channel_people",
    metadata,
    Column("channel", String(32), primary_key=True),
    Column("account", String(64), primary_key=True),
    Column("external_id", String(128), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("name", String(255), nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Index("ix_channel_people_owner", "owner"),
)

# Codes with which a person connects their chat account, by hash. Each is used once.
channel_codes = Table(
    "channel_codes",
    metadata,
    Column("code_hash", String(64), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("expires_at", UtcTime, nullable=False),
    Index("ix_channel_codes_owner", "owner"),
    Index("ix_channel_codes_expires_at", "expires_at"),
)

# The thread of a person in a chat. `topic` is empty, or a part of the chat that has messages of its own.
channel_chats = Table(
    "channel_chats",
    metadata,
    Column("channel", String(32), primary_key=True),
    Column("account", String(64), primary_key=True),
    Column("chat", String(128), primary_key=True),
    Column("topic", String(128), primary_key=True),
    Column("owner", String(64), primary_key=True),
    Column("thread_id", String(64), nullable=False),
    Column("settings", JSON, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    Index("ix_channel_chats_owner", "owner"),
)

# Updates that have been received. A platform sends an update again until it is confirmed.
channel_inbound = Table(
    "channel_inbound",
    metadata,
    Column("channel", String(32), primary_key=True),
    Column("account", String(64), primary_key=True),
    Column("update_id", String(128), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("run_id", String(64)),
    Column("received_at", UtcTime, nullable=False),
    Index("ix_channel_inbound_owner", "owner"),
    Index("ix_channel_inbound_received_at", "received_at"),
)

# Messages to be sent, with what is known of them: `sending` is the intent, `sent`, `failed` and `unknown` the outcome.
# Texts of answers are not stored here: they are read from the log of the run.
channel_outbox = Table(
    "channel_outbox",
    metadata,
    Column("number", ROW_NUMBER, primary_key=True),
    Column("channel", String(32), nullable=False),
    Column("account", String(64), nullable=False),
    Column("chat", String(128), nullable=False),
    Column("topic", String(128), nullable=False),
    Column("owner", String(64), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("run_id", String(64)),
    Column("thread_id", String(64)),
    Column("part", Integer, nullable=False),
    Column("repeats", Integer, nullable=False),
    Column("body", PlainText),
    Column("details", JSON, nullable=False),
    Column("message_id", String(128)),
    Column("updated_at", UtcTime, nullable=False),
    Index("ix_channel_outbox_channel_account_state", "channel", "account", "state"),
    Index("ix_channel_outbox_owner", "owner"),
    Index("ix_channel_outbox_updated_at", "updated_at"),
)

# Process that receives the messages of a channel, empty if none does, and the state of its connection.
# `renewals` grows while the process lives; `restarts` grows with each request for a new connection.
channel_leases = Table(
    "channel_leases",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("process", String(64), nullable=False),
    Column("renewals", BigInteger, nullable=False),
    Column("restarts", BigInteger, nullable=False),
    Column("state", JSON, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
)

# Chat apps that an administrator has connected on the page. The settings are encrypted, with their tokens.
channel_connections = Table(
    "channel_connections",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("sealed", LargeBinary, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
)

# Webhooks of people. `sealed` has the secret with which requests are signed, and the token with which answers are sent.
hooks = Table(
    "hooks",
    metadata,
    Column("hook_id", String(64), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("name", PlainText, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("settings", JSON, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("is_enabled", Boolean, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Index("ix_hooks_owner", "owner"),
)
