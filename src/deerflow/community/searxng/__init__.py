"""SearXNG: self-hosted search engine without an API key."""
