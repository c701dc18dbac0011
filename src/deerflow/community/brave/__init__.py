"""Brave: search for pages and images, with a key."""
