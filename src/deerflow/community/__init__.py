"""Providers by name: what others offer, behind our contracts."""
