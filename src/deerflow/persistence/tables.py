"""The tables. A change here needs a migration; a test compares the two."""

from datetime import UTC, datetime, timedelta
from hashlib import sha256

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
)
from sqlalchemy.types import JSON

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class UtcTime(TypeDecorator[datetime]):
    """A moment as microseconds since 1970: sortable, exact, and the same in every database."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else to_stored(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        return None if value is None else EPOCH + timedelta(microseconds=value)


class PlainText(TypeDecorator[str]):
    """A text as people write it; the one character that PostgreSQL cannot hold is replaced."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return value.replace("\0", "\ufffd") if value else value


ROW_NUMBER = BigInteger().with_variant(Integer, "sqlite")
"""Counts rows: SQLite does so only for its own kind of integer."""


def to_key(name: str, limit: int = 255) -> str:
    """A name that others gave, as a column can hold it; of one that is too long, a digest keeps it apart."""
    clean = name.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    return clean if len(clean) <= limit else clean[: limit - 64] + sha256(clean.encode()).hexdigest()


def to_stored(moment: datetime) -> int:
    """A moment as the tables hold it."""
    return (moment - EPOCH) // timedelta(microseconds=1)


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

threads = Table(
    "threads",
    metadata,
    Column("thread_id", String(64), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("title", PlainText),
    Column("agent_title", PlainText),  # what the agent calls it, while a person calls it something else
    Column("metadata", JSON, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    Index("ix_threads_owner_updated_at", "owner", "updated_at"),
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", String(64), primary_key=True),
    Column("thread_id", String(64), ForeignKey("threads.thread_id", ondelete="CASCADE"), nullable=False),
    Column("owner", String(64), nullable=False),
    Column("assistant_id", PlainText, nullable=False),
    Column("status", String(16), nullable=False),
    Column("on_disconnect", String(16), nullable=False),
    Column("multitask_strategy", String(16), nullable=False),
    Column("process", String(64), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("idempotency_key", String(255)),
    Column("request_hash", String(64), nullable=False),
    Column("request", JSON, nullable=False),
    Column("metadata", JSON, nullable=False),
    Column("error", PlainText),
    Column("cancel_action", String(16)),
    Column("waits_for", String(16)),  # what it has left for a person to say
    Column("input_tokens", BigInteger, nullable=False, server_default="0"),
    Column("output_tokens", BigInteger, nullable=False, server_default="0"),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    Index("ix_runs_thread_id_created_at", "thread_id", "created_at"),
)

Index("ix_runs_owner_idempotency_key", runs.c.owner, runs.c.idempotency_key, unique=True)
Index("ix_runs_owner_created_at", runs.c.owner, runs.c.created_at)

# Who is alive, where the lock of a file cannot tell: a process of another machine.
processes = Table(
    "processes",
    metadata,
    Column("process", String(64), primary_key=True),
    Column("lease_expires_at", UtcTime, nullable=False),
)

# Threads that are being deleted, whose they were, and which process is at it: a crash in the middle is made good.
deletions = Table(
    "deletions",
    metadata,
    Column("thread_id", String(64), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("process", String(64), nullable=False),
    Column("created_at", UtcTime, nullable=False),
)

run_events = Table(
    "run_events",
    metadata,
    Column("run_id", String(64), ForeignKey("runs.run_id", ondelete="CASCADE"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("event", String(32), nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    sqlite_with_rowid=False,
)

run_file_changes = Table(
    "run_file_changes",
    metadata,
    Column("run_id", String(64), ForeignKey("runs.run_id", ondelete="CASCADE"), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("data", LargeBinary, nullable=False),
)

store_items = Table(
    "store_items",
    metadata,
    Column("owner", String(64), primary_key=True),
    Column("namespace", String(512), primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("value", JSON, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
)

# What model calls took, one row for each model and purpose of a run. Spent is spent: a row outlives its thread,
# and then tells nothing but its owner.
usage_entries = Table(
    "usage_entries",
    metadata,
    Column("entry_id", ROW_NUMBER, primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("thread_id", String(64), ForeignKey("threads.thread_id", ondelete="SET NULL")),
    Column("run_id", String(64), ForeignKey("runs.run_id", ondelete="SET NULL")),
    Column("caller", String(64), nullable=False),
    Column("model", String(255), nullable=False),
    Column("calls", BigInteger, nullable=False),
    Column("unmetered_calls", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("cache_write_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("reasoning_tokens", BigInteger, nullable=False),
    Column("context_tokens", BigInteger),
    Column("cost", BigInteger),  # in millionths of a millionth of the currency, so that sums are exact
    Column("currency", String(8)),
    Column("ended_at", UtcTime, nullable=False),
    Index("ix_usage_entries_owner_ended_at", "owner", "ended_at"),
    Index("ix_usage_entries_thread_id", "thread_id"),
    Index("ix_usage_entries_run_id", "run_id"),
)

feedback = Table(
    "feedback",
    metadata,
    Column("feedback_id", String(64), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("thread_id", String(64), ForeignKey("threads.thread_id", ondelete="CASCADE"), nullable=False),
    Column("run_id", String(64), ForeignKey("runs.run_id", ondelete="CASCADE"), nullable=False),
    Column("message_id", String(255), nullable=False),  # empty when the whole run is meant: NULL is never the same
    Column("rating", Integer, nullable=False),
    Column("comment", PlainText),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    Index("ix_feedback_run_id_owner_message_id", "run_id", "owner", "message_id", unique=True),
    Index("ix_feedback_thread_id", "thread_id"),
)

# What can be searched. The words of each row are in `search_terms`, which every database keeps in its own way.
search_messages = Table(
    "search_messages",
    metadata,
    Column("row_id", ROW_NUMBER, primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("thread_id", String(64), ForeignKey("threads.thread_id", ondelete="CASCADE"), nullable=False),
    Column("run_id", String(64), ForeignKey("runs.run_id", ondelete="SET NULL")),
    Column("message_id", String(255), nullable=False),  # empty for the title
    Column("part", Integer, nullable=False),
    Column("role", String(16), nullable=False),
    Column("text", PlainText, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Index("ix_search_messages_thread_id_message_id_part", "thread_id", "message_id", "part", unique=True),
    Index("ix_search_messages_run_id", "run_id"),
)

# Threads from before there was an index; what is done is taken out.
search_backlog = Table(
    "search_backlog",
    metadata,
    Column("thread_id", String(64), ForeignKey("threads.thread_id", ondelete="CASCADE"), primary_key=True),
)

user_profiles = Table(
    "user_profiles",
    metadata,
    Column("owner", String(64), primary_key=True),
    Column("content", PlainText, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
)

# Links under which anybody may read a thread. Their secrets are not kept, only what they hash to.
shares = Table(
    "shares",
    metadata,
    Column("share_id", String(64), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("thread_id", String(64), ForeignKey("threads.thread_id", ondelete="CASCADE"), nullable=False),
    Column("token_hash", String(64), nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("expires_at", UtcTime),
    Index("ix_shares_token_hash", "token_hash", unique=True),
    Index("ix_shares_thread_id", "thread_id"),
)

# Pages that agents have read, or could not; rows are added and never changed. A text is kept once in a thread.
web_pages = Table(
    "web_pages",
    metadata,
    Column("thread_id", String(64), ForeignKey("threads.thread_id", ondelete="CASCADE"), primary_key=True),
    Column("snapshot_id", String(64), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("asked_url", PlainText, nullable=False),
    Column("url", PlainText, nullable=False),
    Column("title", PlainText, nullable=False),
    Column("content_type", PlainText, nullable=False),
    Column("text_hash", String(64)),
    Column("chars", Integer, nullable=False),
    Column("problem", PlainText),
    Column("fetched_at", UtcTime, nullable=False),
    Index("ix_web_pages_thread_id_fetched_at", "thread_id", "fetched_at"),
)

web_texts = Table(
    "web_texts",
    metadata,
    Column("thread_id", String(64), ForeignKey("threads.thread_id", ondelete="CASCADE"), primary_key=True),
    Column("text_hash", String(64), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("chars", Integer, nullable=False),
    Column("text", PlainText, nullable=False),
)

# Memories: one for each person and custom agent (empty: none of them). What is known is what the last change of each
# target left; `memory_facts` is the same again, to be searched.
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
    Column("source_thread", String(255)),  # also where only what is known names it, so that it can be looked for
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

# Conversations that memory is yet to read, and up to which message it has read them.
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

# Logins at MCP servers, sealed; whoever fetches a new token holds the row meanwhile. The owner "*" is the operator.
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

# Logins that have begun: their secret is kept as what it hashes to, and ends with its first use.
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

# Tools of MCP servers as they were accepted, and as they are offered where that differs. The tool "" is the server.
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
