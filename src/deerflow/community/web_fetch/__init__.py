"""Our own way to read pages: no key, no third party, and no way into private networks."""
