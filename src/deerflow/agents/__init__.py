"""Agents: model, tools, prompt and middlewares made into a graph."""
