"""What agents know about people, from one conversation to the next."""
