"""Feishu and Lark: a client of the open platform, its long connection, and cards."""
