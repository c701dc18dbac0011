"""Files and mounts of a thread."""
