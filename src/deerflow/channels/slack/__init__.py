"""Slack as a channel."""
