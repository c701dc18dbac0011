"""Common parts of the web tools: result types, HTTP client, errors."""
