"""Tables of memory and of MCP servers."""

from sqlalchemy import BigInteger, Boolean, Column, Float, ForeignKey, Index, Integer, LargeBinary, String, Table
from sqlalchemy.types import JSON

from deerflow.persistence.tables.columns import ROW_NUMBER, UtcTime, metadata

# Memory scopes: one per user and custom agent (empty: the lead agent). The current value of a target is its last
# change; `memory_facts` holds the current facts again, for search.
memory_scopes = Table(
    "memory_scopes",
    metadata,
    Column("owner", String(64), primary_key=True),
    Column("agent", String(255), primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("is_off", Boolean, nullable=False),
    Column("updated_at", UtcTime),
)

memory_changes = Table(
    "memory_changes",
    metadata,
    Column("owner", String(64), primary_key=True),
    Column("agent", String(255), primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("change_id", String(64), nullable=False),
    Column("group_id", String(64), nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("actor", String(16), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("target", String(64), nullable=False),
    Column("before", JSON(none_as_null=True)),
    Column("after", JSON(none_as_null=True)),
    Column("source", JSON(none_as_null=True)),
    Column("source_thread", String(255)),  # also set when only the value names the thread, for lookup
    Column("undoes", String(64)),
    Index("ix_memory_changes_change_id", "change_id", unique=True),
    Index("ix_memory_changes_owner_agent_target_seq", "owner", "agent", "target", "seq"),
    Index("ix_memory_changes_owner_source_thread", "owner", "source_thread"),
)

memory_facts = Table(
    "memory_facts",
    metadata,
    Column("row_id", ROW_NUMBER, primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("agent", String(255), nullable=False),
    Column("fact_id", String(64), nullable=False),
    Column("category", String(16), nullable=False),
    Column("confidence", Float, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("data", JSON, nullable=False),
    Index("ix_memory_facts_owner_agent_fact_id", "owner", "agent", "fact_id", unique=True),
    Index("ix_memory_facts_owner_agent_confidence_created_at", "owner", "agent", "confidence", "created_at"),
    Index("ix_memory_facts_owner_agent_category", "owner", "agent", "category"),
)

# Conversations with pending extraction, and the last message that was processed of each.
memory_pending = Table(
    "memory_pending",
    metadata,
    Column("owner", String(64), primary_key=True),
    Column("agent", String(255), primary_key=True),
    Column("thread_id", String(64), ForeignKey("threads.thread_id", ondelete="CASCADE"), primary_key=True),
    Column("last_message_id", String(255), nullable=False),
    Column("is_correction", Boolean, nullable=False),
    Column("is_reinforcement", Boolean, nullable=False),
    Column("data", JSON, nullable=False),
    Column("due_at", UtcTime, nullable=False),
    Column("is_unpaid", Boolean, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("process", String(64)),
    Column("lease_expires_at", UtcTime),
    Index("ix_memory_pending_due_at", "due_at"),
    Index("ix_memory_pending_thread_id", "thread_id"),
)

memory_watermarks = Table(
    "memory_watermarks",
    metadata,
    Column("owner", String(64), primary_key=True),
    Column("agent", String(255), primary_key=True),
    Column("thread_id", String(64), ForeignKey("threads.thread_id", ondelete="CASCADE"), primary_key=True),
    Column("message_id", String(255), nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    Index("ix_memory_watermarks_thread_id", "thread_id"),
)

# OAuth tokens of MCP servers, encrypted. A process claims the row while it refreshes the token. Owner "*": operator.
mcp_tokens = Table(
    "mcp_tokens",
    metadata,
    Column("owner", String(64), primary_key=True),
    Column("server", String(255), primary_key=True),
    Column("sealed", LargeBinary),
    Column("updated_at", UtcTime, nullable=False),
    Column("claim", String(64)),
    Column("claimed_until", UtcTime),
    Index("ix_mcp_tokens_server", "server"),
)

# Pending OAuth logins. Only the hash of the `state` parameter is stored; it is valid once.
mcp_logins = Table(
    "mcp_logins",
    metadata,
    Column("state_hash", String(64), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("server", String(255), nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("expires_at", UtcTime, nullable=False),
    Index("ix_mcp_logins_owner", "owner"),
    Index("ix_mcp_logins_server", "server"),
)

# Tools of MCP servers as accepted, and as currently offered if that differs. Tool "" stands for the server.
mcp_pins = Table(
    "mcp_pins",
    metadata,
    Column("server", String(255), primary_key=True),
    Column("tool", String(255), primary_key=True),
    Column("hash", String(64)),
    Column("shown", JSON(none_as_null=True)),
    Column("accepted_at", UtcTime),
    Column("accepted_by", String(64)),
    Column("offered_hash", String(64)),
    Column("offered", JSON(none_as_null=True)),
    Column("offered_at", UtcTime),
)
