"""Jina AI: its reader for pages; a key raises its limits."""
