"""Tells Alembic which connection and tables to work on."""

from alembic import context

from deerflow.persistence.partial_indexes import whole_schema

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=whole_schema,
    render_as_batch=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
