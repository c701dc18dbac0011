"""SQL of memory: facts and changes, search, erasure and the extraction queue."""
