"""Create saved connections to model providers, and their models."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "model_connections",
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("connection_id", sa.String(64), nullable=False),
        sa.Column("provider", sa.String(64), nullable=False),
        sa.Column("base_url", sa.String(512), nullable=False),
        sa.Column("sealed", sa.LargeBinary),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("owner", "connection_id", name="pk_model_connections"),
    )
    op.create_index(
        "ix_model_connections_owner_provider_base_url",
        "model_connections",
        ["owner", "provider", "base_url"],
        unique=True,
    )
    op.create_table(
        "saved_models",
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("connection_id", sa.String(64), nullable=False),
        sa.Column("model", sa.String(255), nullable=False),
        sa.Column("settings", sa.JSON, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("owner", "name", name="pk_saved_models"),
    )
    op.create_index(
        "ix_saved_models_owner_connection_id_model", "saved_models", ["owner", "connection_id", "model"], unique=True
    )


def downgrade() -> None:
    """Undo."""
    op.drop_table("saved_models")
    op.drop_table("model_connections")
