"""The way in from the terminal."""
