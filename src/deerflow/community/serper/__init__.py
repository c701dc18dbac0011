"""Serper: Google results for pages and images, needs an API key."""
