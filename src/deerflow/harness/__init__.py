"""Composition root: the only package that decides which implementation of a part is used."""

from deerflow.harness.harness import Harness, open_harness

__all__ = ["Harness", "open_harness"]
