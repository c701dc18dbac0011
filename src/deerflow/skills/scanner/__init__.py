"""Security scanner for skills."""
