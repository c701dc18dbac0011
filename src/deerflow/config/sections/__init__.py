"""Sections of `config.yaml`."""
