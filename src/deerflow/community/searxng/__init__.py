"""SearXNG: a search engine of one's own, without a key."""
