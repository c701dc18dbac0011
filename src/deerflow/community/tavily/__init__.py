"""Tavily: search and pages, with a key."""
