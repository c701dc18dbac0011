"""Agents of others, spoken with by the Agent Client Protocol."""
