"""Middlewares around model and tool calls."""
