"""Authoring of custom skills: storage, review, history and tests."""
