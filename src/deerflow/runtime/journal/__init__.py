"""Append-only event log of runs."""
