"""Looks at skills by fixed rules before anybody uses them; no model is asked."""
