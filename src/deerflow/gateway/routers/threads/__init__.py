"""Routers of threads and what belongs to them."""
