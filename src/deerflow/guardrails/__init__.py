"""Policies that decide whether a tool call may run."""
