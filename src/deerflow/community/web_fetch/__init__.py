"""Our own page fetcher: no key, no third party, and no access to private networks."""
