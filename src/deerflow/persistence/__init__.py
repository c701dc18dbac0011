"""Database access: engines, tables, queries, migrations and LangGraph checkpointers."""
