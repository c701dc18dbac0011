"""Chat apps: people use the agent where they already talk."""
