"""Lead agent: the agent that answers the user."""
