"""Add the order of the last activity of threads and of their web pages, which does not depend on the clock."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"

NUMBER_THREADS = """
UPDATE threads SET activity = numbered.activity FROM (
  SELECT thread_id, row_number() OVER (ORDER BY updated_at, thread_id) AS activity FROM threads
) AS numbered WHERE threads.thread_id = numbered.thread_id
"""
NUMBER_PAGES = """
UPDATE web_pages SET position = numbered.position FROM (
  SELECT thread_id, snapshot_id,
    row_number() OVER (PARTITION BY thread_id ORDER BY fetched_at, snapshot_id) AS position
  FROM web_pages
) AS numbered WHERE web_pages.thread_id = numbered.thread_id AND web_pages.snapshot_id = numbered.snapshot_id
"""


def upgrade() -> None:
    """Apply."""
    op.add_column("threads", sa.Column("activity", sa.BigInteger, nullable=False, server_default="0"))
    op.execute(NUMBER_THREADS)
    op.drop_index("ix_threads_owner_updated_at", "threads")
    op.create_index("ix_threads_activity", "threads", ["activity"])
    op.create_index("ix_threads_owner_activity", "threads", ["owner", "activity"])
    op.add_column("web_pages", sa.Column("position", sa.Integer, nullable=False, server_default="0"))
    op.execute(NUMBER_PAGES)
    op.drop_index("ix_web_pages_thread_id_fetched_at", "web_pages")
    op.create_index("ix_web_pages_thread_id_position", "web_pages", ["thread_id", "position"])


def downgrade() -> None:
    """Undo."""
    op.drop_index("ix_web_pages_thread_id_position", "web_pages")
    op.create_index("ix_web_pages_thread_id_fetched_at", "web_pages", ["thread_id", "fetched_at"])
    op.drop_column("web_pages", "position")
    for name in ("activity", "owner_activity"):
        op.drop_index(f"ix_threads_{name}", "threads")
    op.create_index("ix_threads_owner_updated_at", "threads", ["owner", "updated_at"])
    op.drop_column("threads", "activity")
