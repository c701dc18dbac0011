"""Create the quotas of people and their spending by day."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "user_quotas",
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("limits", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("owner", name="pk_user_quotas"),
        sa.ForeignKeyConstraint(["owner"], ["accounts.user_id"], name="fk_user_quotas_owner", ondelete="CASCADE"),
    )
    op.create_table(
        "daily_spending",
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("day", sa.String(10), nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("cost", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("owner", "day", name="pk_daily_spending"),
    )


def downgrade() -> None:
    """Undo."""
    op.drop_table("daily_spending")
    op.drop_table("user_quotas")
