"""DuckDuckGo: search for pages and images without a key."""
