"""Helpers for the tests of the client."""

from typing import Any

from pydantic import BaseModel


def is_valid(model: type[BaseModel], shown: dict[str, Any]) -> bool:
    """Return whether a gateway model accepts all fields of a result and returns the same."""
    return model.model_validate(shown).model_dump(mode="json") == shown
