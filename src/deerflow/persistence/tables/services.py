"""Tables of the services: usage, feedback, search, profiles, share links, web pages, connected models and the store."""

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, LargeBinary, String, Table
from sqlalchemy.types import JSON

from deerflow.persistence.tables.columns import ROW_NUMBER, PlainText, UtcTime, metadata

# One row: the id by which a server recognizes its own database.
installation = Table("installation", metadata, Column("database_id", String(64), primary_key=True))

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

# Token usage, one row per run, model and caller. Rows outlive their thread and then refer to their owner only.
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
    Column("cost", BigInteger),  # in 10^-12 of the currency unit, so that sums are exact
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
    Column("message_id", String(255), nullable=False),  # empty for the whole run; NULL would not be unique
    Column("rating", Integer, nullable=False),
    Column("comment", PlainText),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    Index("ix_feedback_run_id_owner_message_id", "run_id", "owner", "message_id", unique=True),
    Index("ix_feedback_thread_id", "thread_id"),
)

# Searchable messages. The terms of each row are in `search_terms`, an FTS5 table or a `tsvector` column.
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

# Threads that are not indexed yet.
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

# Public share links of threads. Only the hash of a link's token is stored.
shares = Table(
    "shares",
    metadata,
    Column("share_id", String(64), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("thread_id", String(64), ForeignKey("threads.thread_id", ondelete="CASCADE"), nullable=False),
    Column("token_hash", String(64), nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("expires_at", UtcTime),
    Column("run_position", BigInteger),  # of the last run that the link shows, and the last of its events
    Column("event_seq", BigInteger),
    Index("ix_shares_token_hash", "token_hash", unique=True),
    Index("ix_shares_thread_id", "thread_id"),
)

# Web pages that agents have fetched, or failed to fetch; rows are immutable. Equal texts are stored once per thread.
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

# Connections to model providers that users have saved, and the models of each. The key is encrypted; null: no key.
model_connections = Table(
    "model_connections",
    metadata,
    Column("owner", String(64), primary_key=True),
    Column("connection_id", String(64), primary_key=True),
    Column("provider", String(64), nullable=False),
    Column("base_url", String(512), nullable=False),
    Column("sealed", LargeBinary),
    Column("updated_at", UtcTime, nullable=False),
    Index("ix_model_connections_owner_provider_base_url", "owner", "provider", "base_url", unique=True),
)

saved_models = Table(
    "saved_models",
    metadata,
    Column("owner", String(64), primary_key=True),
    Column("name", String(255), primary_key=True),
    Column("connection_id", String(64), nullable=False),
    Column("model", String(255), nullable=False),
    Column("settings", JSON, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Index("ix_saved_models_owner_connection_id_model", "owner", "connection_id", "model", unique=True),
)
