"""Servers with the protocols of chat platforms, on this machine."""
