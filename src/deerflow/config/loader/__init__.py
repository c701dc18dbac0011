"""Parsing, validation and error messages of configuration files."""
