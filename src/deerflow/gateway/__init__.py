"""The way in from HTTP."""
