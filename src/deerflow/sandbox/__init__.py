"""Sandboxes: the machines and files that agents work with."""
