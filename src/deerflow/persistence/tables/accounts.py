"""Tables of accounts with all that belongs to them, of logins, of the audit log and of spending."""

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, LargeBinary, String, Table
from sqlalchemy.types import JSON

from deerflow.persistence.tables.runs import PlainText, UtcTime, metadata

# `email_key` is the address as it is compared; two accounts cannot have the same.
accounts = Table(
    "accounts",
    metadata,
    Column("user_id", String(64), primary_key=True),
    Column("email", String(255), nullable=False),
    Column("email_key", String(255), nullable=False),
    Column("password_hash", String(255), nullable=False),
    Column("role", String(16), nullable=False),
    Column("is_active", Boolean, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("last_login_at", UtcTime),
    Index("ix_accounts_email_key", "email_key", unique=True),
)

login_sessions = Table(
    "login_sessions",
    metadata,
    Column("session_id", String(64), primary_key=True),
    Column("owner", String(64), ForeignKey("accounts.user_id", ondelete="CASCADE"), nullable=False),
    Column("token_hash", String(64), nullable=False),
    Column("address", String(64), nullable=False),
    Column("client", String(255), nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("last_used_at", UtcTime, nullable=False),
    Column("expires_at", UtcTime, nullable=False),
    Index("ix_login_sessions_token_hash", "token_hash", unique=True),
    Index("ix_login_sessions_owner", "owner"),
)

api_tokens = Table(
    "api_tokens",
    metadata,
    Column("token_id", String(64), primary_key=True),
    Column("owner", String(64), ForeignKey("accounts.user_id", ondelete="CASCADE"), nullable=False),
    Column("token_hash", String(64), nullable=False),
    Column("name", String(255), nullable=False),
    Column("scope", String(16), nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("last_used_at", UtcTime),
    Column("expires_at", UtcTime),
    Index("ix_api_tokens_token_hash", "token_hash", unique=True),
    Index("ix_api_tokens_owner", "owner"),
)

# Invitations, and links with which the password of an account (`user_id`) is set again.
account_links = Table(
    "account_links",
    metadata,
    Column("link_id", String(64), primary_key=True),
    Column("user_id", String(64), ForeignKey("accounts.user_id", ondelete="CASCADE")),
    Column("token_hash", String(64), nullable=False),
    Column("email", String(255)),
    Column("role", String(16), nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("expires_at", UtcTime, nullable=False),
    Index("ix_account_links_token_hash", "token_hash", unique=True),
    Index("ix_account_links_user_id", "user_id"),
)

# One row per account name and per address, by hash, with the times of the failures that count.
login_failures = Table(
    "login_failures",
    metadata,
    Column("subject", String(64), primary_key=True),
    Column("failures", JSON, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    Index("ix_login_failures_updated_at", "updated_at"),
)

# The audit log: each hash covers the fields of its entry and the hash before it. Of `details` it covers `details_hash`,
# a hash with a random salt, so that the details of a deleted person can be erased. Ids only: `actor` did something to
# the data of `subject`.
audit_entries = Table(
    "audit_entries",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("at", UtcTime, nullable=False),
    Column("kind", String(48), nullable=False),
    Column("actor", String(64)),
    Column("subject", String(64)),
    Column("outcome", String(16), nullable=False),
    Column("details", PlainText),
    Column("salt", String(32)),
    Column("details_hash", String(64)),
    Column("hash", String(64), nullable=False),
    Index("ix_audit_entries_actor_seq", "actor", "seq"),
    Index("ix_audit_entries_subject_seq", "subject", "seq"),
    Index("ix_audit_entries_kind_seq", "kind", "seq"),
)

# One row, which every writer locks: the number and the hash of the last entry.
audit_head = Table(
    "audit_head",
    metadata,
    Column("head_id", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, nullable=False),
    Column("hash", String(64), nullable=False),
)

# People whose data is being deleted, with the deleting process. After a crash the deletion is resumed.
user_deletions = Table(
    "user_deletions",
    metadata,
    Column("user_id", String(64), primary_key=True),
    Column("process", String(64), nullable=False),
    Column("created_at", UtcTime, nullable=False),
)

teams = Table(
    "teams",
    metadata,
    Column("team_id", String(64), primary_key=True),
    Column("name", String(255), nullable=False),
    Column("created_at", UtcTime, nullable=False),
)

team_members = Table(
    "team_members",
    metadata,
    Column("team_id", String(64), ForeignKey("teams.team_id", ondelete="CASCADE"), primary_key=True),
    Column("user_id", String(64), ForeignKey("accounts.user_id", ondelete="CASCADE"), primary_key=True),
    Column("role", String(16), nullable=False),
    Column("added_at", UtcTime, nullable=False),
    Index("ix_team_members_user_id", "user_id"),
)

# What a person shares, with a person (`user_id`) or with a team. Of a thread, `thread_id` repeats its id in `resource`,
# so that a grant ends with its thread.
grants = Table(
    "grants",
    metadata,
    Column("grant_id", String(64), primary_key=True),
    Column("owner", String(64), ForeignKey("accounts.user_id", ondelete="CASCADE"), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("resource", String(255), nullable=False),
    Column("thread_id", String(64), ForeignKey("threads.thread_id", ondelete="CASCADE")),
    Column("user_id", String(64), ForeignKey("accounts.user_id", ondelete="CASCADE")),
    Column("team_id", String(64), ForeignKey("teams.team_id", ondelete="CASCADE")),
    Column("access", String(16), nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Index("ix_grants_resource_user_id", "owner", "kind", "resource", "user_id", unique=True),
    Index("ix_grants_resource_team_id", "owner", "kind", "resource", "team_id", unique=True),
    Index("ix_grants_thread_id", "thread_id"),
    Index("ix_grants_user_id", "user_id"),
    Index("ix_grants_team_id", "team_id"),
)

# Skills of others (`owner`) that a person has switched on. A row ends with the access to the skill.
accepted_skills = Table(
    "accepted_skills",
    metadata,
    Column("user_id", String(64), ForeignKey("accounts.user_id", ondelete="CASCADE"), primary_key=True),
    Column("owner", String(64), ForeignKey("accounts.user_id", ondelete="CASCADE"), primary_key=True),
    Column("name", String(255), primary_key=True),
    Index("ix_accepted_skills_owner", "owner"),
)

# Limits that an administrator has set for a person: those that are missing in `limits` are configured, null is none.
user_quotas = Table(
    "user_quotas",
    metadata,
    Column("owner", String(64), ForeignKey("accounts.user_id", ondelete="CASCADE"), primary_key=True),
    Column("limits", JSON, nullable=False),
)

# Spent and reserved amounts of a person on a day (UTC), with a quota only. `cost` is in 10⁻¹² of the currency.
daily_spending = Table(
    "daily_spending",
    metadata,
    Column("owner", String(64), primary_key=True),
    Column("day", String(10), primary_key=True),
    Column("tokens", BigInteger, nullable=False),
    Column("cost", BigInteger, nullable=False),
)

# Accounts of people at OpenID providers: the issuer and the subject identify a person, the address does not.
identities = Table(
    "identities",
    metadata,
    Column("identity_id", String(64), primary_key=True),
    Column("owner", String(64), ForeignKey("accounts.user_id", ondelete="CASCADE"), nullable=False),
    Column("issuer", String(512), nullable=False),
    Column("subject", String(255), nullable=False),
    Column("email", String(255), nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("last_used_at", UtcTime),
    Index("ix_identities_issuer_subject", "issuer", "subject", unique=True),
    Index("ix_identities_owner", "owner"),
)

# Ids of credentials have up to 1023 bytes, so the index has their hashes.
passkeys = Table(
    "passkeys",
    metadata,
    Column("passkey_id", String(64), primary_key=True),
    Column("owner", String(64), ForeignKey("accounts.user_id", ondelete="CASCADE"), nullable=False),
    Column("credential_hash", String(64), nullable=False),
    Column("credential_id", LargeBinary, nullable=False),
    Column("public_key", LargeBinary, nullable=False),
    Column("sign_count", BigInteger, nullable=False),
    Column("is_synced", Boolean, nullable=False),
    Column("is_backed_up", Boolean, nullable=False),
    Column("name", String(255), nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("last_used_at", UtcTime),
    Index("ix_passkeys_credential_hash", "credential_hash", unique=True),
    Index("ix_passkeys_owner", "owner"),
)

# Logins that a browser has begun, by the hash of a secret: each is used once. `user_id`: who has begun it, if known.
login_attempts = Table(
    "login_attempts",
    metadata,
    Column("key_hash", String(64), primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("user_id", String(64), ForeignKey("accounts.user_id", ondelete="CASCADE")),
    Column("network", String(64), nullable=False),
    Column("data", JSON, nullable=False),
    Column("expires_at", UtcTime, nullable=False),
    Index("ix_login_attempts_network", "network"),
    Index("ix_login_attempts_expires_at", "expires_at"),
)
