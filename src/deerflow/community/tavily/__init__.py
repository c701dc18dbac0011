"""Tavily: search and pages, needs an API key."""

from deerflow.community.tavily.tools import web_search_tool as tavily_search  # a name of the founding documents

__all__ = ["tavily_search"]
