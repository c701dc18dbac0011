"""Create the table of shared skills that people have switched on."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"

ACCOUNT = "accounts.user_id"


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "accepted_skills",
        sa.Column("user_id", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "owner", "name", name="pk_accepted_skills"),
        sa.ForeignKeyConstraint(["user_id"], [ACCOUNT], name="fk_accepted_skills_user_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["owner"], [ACCOUNT], name="fk_accepted_skills_owner", ondelete="CASCADE"),
    )
    op.create_index("ix_accepted_skills_owner", "accepted_skills", ["owner"])


def downgrade() -> None:
    """Undo."""
    op.drop_table("accepted_skills")
