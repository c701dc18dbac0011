"""Firecrawl: search, and pages seen by a browser, with a key or self-hosted."""
