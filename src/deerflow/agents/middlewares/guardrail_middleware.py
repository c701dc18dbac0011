"""Public import path of `GuardrailMiddleware`."""

from deerflow.guardrails.middleware import GuardrailMiddleware

__all__ = ["GuardrailMiddleware"]
