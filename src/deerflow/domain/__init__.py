"""Domain types shared by all packages: plain data and protocols, no I/O."""
