"""Jobs and services that run inside a sandbox."""
