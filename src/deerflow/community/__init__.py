"""Integrations with third-party services, behind our own contracts."""
