"""DeerFlow: a lead agent with its own computer, run by a durable runtime."""

__version__ = "0.1.0"
