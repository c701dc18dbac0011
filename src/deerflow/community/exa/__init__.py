"""Exa: search by meaning, and pages, with a key."""
