"""Serper: Google's results for pages and images, with a key."""
