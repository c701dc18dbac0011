"""Long-term memory: facts about users, their extraction from conversations and their injection into prompts."""
