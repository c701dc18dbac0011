"""Add the order of runs, which does not depend on the clock."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

NUMBER_RUNS = """
UPDATE runs SET position = numbered.position FROM (
  SELECT run_id, row_number() OVER (ORDER BY created_at, run_id) AS position FROM runs
) AS numbered WHERE runs.run_id = numbered.run_id
"""


def upgrade() -> None:
    """Apply."""
    op.add_column("runs", sa.Column("position", sa.BigInteger, nullable=False, server_default="0"))
    op.execute(NUMBER_RUNS)
    op.drop_index("ix_runs_thread_id_created_at", "runs")
    op.drop_index("ix_runs_owner_created_at", "runs")
    op.create_index("ix_runs_position", "runs", ["position"])
    op.create_index("ix_runs_thread_id_position", "runs", ["thread_id", "position"])
    op.create_index("ix_runs_owner_position", "runs", ["owner", "position"])


def downgrade() -> None:
    """Undo."""
    for name in ("position", "thread_id_position", "owner_position"):
        op.drop_index(f"ix_runs_{name}", "runs")
    op.create_index("ix_runs_owner_created_at", "runs", ["owner", "created_at"])
    op.create_index("ix_runs_thread_id_created_at", "runs", ["thread_id", "created_at"])
    op.drop_column("runs", "position")
