"""Alembic environment: the connection and the tables to migrate."""

from alembic import context

from deerflow.persistence.engine.schema import load_full_metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=load_full_metadata(),
    render_as_batch=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
