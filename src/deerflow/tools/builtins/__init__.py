"""The tools every agent has."""
