"""DuckDuckGo: web and image search without an API key."""
