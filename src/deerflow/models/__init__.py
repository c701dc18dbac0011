"""Chat models: detection, construction and clients."""
