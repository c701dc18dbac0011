"""Files people give to a thread: kept as they are, and documents turned into text beside them."""
