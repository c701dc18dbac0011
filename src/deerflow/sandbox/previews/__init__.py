"""Previews of Office files and archives, made in the sandbox of a thread."""
