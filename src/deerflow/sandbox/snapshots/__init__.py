"""Snapshots of thread files, diffs and restore."""
