"""Uploads: files that users add to a thread, and their conversion to Markdown."""
