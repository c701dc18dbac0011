"""Queries of projects."""
