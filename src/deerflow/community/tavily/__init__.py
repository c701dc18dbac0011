"""Tavily: search and pages, needs an API key."""
