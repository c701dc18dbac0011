"""Tables of capabilities and services: memory, MCP servers, search, usage, sharing and connected models."""

from sqlalchemy import BigInteger, Boolean, Column, Float, ForeignKey, Index, Integer, LargeBinary, String, Table
from sqlalchemy.types import JSON

from deerflow.persistence.tables.runs import ROW_NUMBER, PlainText, UtcTime, metadata

# A deleted project gets the owner of deleted rows; `former_owner` is then the user whose files and memory are purged.
projects = Table(
    "projects",
    metadata,
    Column("project_id", String(64), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("former_owner", String(64)),
    Column("name", PlainText, nullable=False),
    Column("instructions", PlainText, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    Index("ix_projects_owner_updated_at", "owner", "updated_at"),
)

# The queue of the indexer: files that wait, and those that a process has claimed until a time.
project_files = Table(
    "project_files",
    metadata,
    Column("file_id", String(64), primary_key=True),
    Column("project_id", String(64), ForeignKey("projects.project_id", ondelete="CASCADE"), nullable=False),
    Column("name", String(255), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("state", String(16), nullable=False),
    Column("problem", PlainText),
    Column("unit", String(16)),
    Column("pages", Integer, nullable=False),
    Column("passages", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("claim", String(64)),
    Column("claimed_until", UtcTime),
    Column("created_at", UtcTime, nullable=False),
    Index("ix_project_files_project_id_name", "project_id", "name", unique=True),
    Index("ix_project_files_state_created_at", "state", "created_at"),
)

passages = Table(
    "passages",
    metadata,
    Column("row_id", ROW_NUMBER, primary_key=True),
    Column("project_id", String(64), nullable=False),
    Column("file_id", String(64), ForeignKey("project_files.file_id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("text", PlainText, nullable=False),
    Column("headings", PlainText, nullable=False, server_default=""),
    Index("ix_passages_file_id_number", "file_id", "number", unique=True),
)

# `signs` has one bit per dimension. The index holds it too, so that a search compares all of them without the vectors.
passage_vectors = Table(
    "passage_vectors",
    metadata,
    Column("row_id", ROW_NUMBER, ForeignKey("passages.row_id", ondelete="CASCADE"), primary_key=True),
    Column("project_id", String(64), nullable=False),
    Column("model", String(255), nullable=False),
    Column("signs", LargeBinary, nullable=False),
    Column("vector", LargeBinary, nullable=False),
    Index("ix_passage_vectors_project_id_model_row_id_signs", "project_id", "model", "row_id", "signs"),
)


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
    Column("position", Integer, nullable=False, server_default="0"),
    Index("ix_web_pages_thread_id_position", "thread_id", "position"),
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
