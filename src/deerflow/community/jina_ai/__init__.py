"""Jina AI: page reader; an API key raises its limits."""
