"""Exa: semantic search and pages, needs an API key."""
