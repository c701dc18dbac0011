"""Projects: shared files, instructions and memory of threads, and search in the files."""
