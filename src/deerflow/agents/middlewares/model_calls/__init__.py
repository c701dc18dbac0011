"""Middlewares that wrap model calls."""
