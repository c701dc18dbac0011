"""What a user may set: one module per key of `config.yaml`."""
