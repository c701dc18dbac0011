"""The configuration: sections, loading and access to the current settings."""
