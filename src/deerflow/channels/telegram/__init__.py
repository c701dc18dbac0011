"""Telegram: a client of the Bot API, and Markdown as Telegram shows it."""
