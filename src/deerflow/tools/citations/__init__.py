"""Verification of citations against fetched pages."""
