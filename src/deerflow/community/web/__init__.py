"""What all web tools have in common: one shape of results, one way to speak HTTP, errors with names."""
