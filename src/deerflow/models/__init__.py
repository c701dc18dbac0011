"""Chat models: how one is found, built and talked to."""
