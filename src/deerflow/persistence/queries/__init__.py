"""SQL statements as functions of a `Connection`."""
