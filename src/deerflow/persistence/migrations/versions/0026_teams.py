"""Create teams, their members, grants, and the person who has started a run in a shared thread."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"

ACCOUNT = "accounts.user_id"


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "teams",
        sa.Column("team_id", sa.String(64), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("team_id", name="pk_teams"),
    )
    op.create_table(
        "team_members",
        sa.Column("team_id", sa.String(64), nullable=False),
        sa.Column("user_id", sa.String(64), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("added_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("team_id", "user_id", name="pk_team_members"),
        sa.ForeignKeyConstraint(["team_id"], ["teams.team_id"], name="fk_team_members_team_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], [ACCOUNT], name="fk_team_members_user_id", ondelete="CASCADE"),
    )
    op.create_index("ix_team_members_user_id", "team_members", ["user_id"])
    op.create_table(
        "grants",
        sa.Column("grant_id", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("resource", sa.String(255), nullable=False),
        sa.Column("thread_id", sa.String(64)),
        sa.Column("user_id", sa.String(64)),
        sa.Column("team_id", sa.String(64)),
        sa.Column("access", sa.String(16), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("grant_id", name="pk_grants"),
        sa.ForeignKeyConstraint(["owner"], [ACCOUNT], name="fk_grants_owner", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["thread_id"], ["threads.thread_id"], name="fk_grants_thread_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], [ACCOUNT], name="fk_grants_user_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["team_id"], ["teams.team_id"], name="fk_grants_team_id", ondelete="CASCADE"),
    )
    op.create_index("ix_grants_resource_user_id", "grants", ["owner", "kind", "resource", "user_id"], unique=True)
    op.create_index("ix_grants_resource_team_id", "grants", ["owner", "kind", "resource", "team_id"], unique=True)
    for column in ("thread_id", "user_id", "team_id"):
        op.create_index(f"ix_grants_{column}", "grants", [column])
    op.add_column("runs", sa.Column("started_by", sa.String(64)))


def downgrade() -> None:
    """Undo."""
    op.drop_column("runs", "started_by")
    for table in ("grants", "team_members", "teams"):
        op.drop_table(table)
