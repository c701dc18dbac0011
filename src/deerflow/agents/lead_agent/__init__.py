"""The agent that answers the user."""
