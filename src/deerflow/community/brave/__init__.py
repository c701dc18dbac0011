"""Brave: web and image search, needs an API key."""
