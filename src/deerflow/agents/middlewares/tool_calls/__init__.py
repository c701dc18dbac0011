"""Middlewares that wrap tool calls."""
