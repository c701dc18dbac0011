"""Small parts that stand around the model and its tools, each with one subject."""
