"""Firecrawl: search and rendered pages, with an API key or self-hosted."""
