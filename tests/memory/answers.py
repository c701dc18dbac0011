"""What a model that learns says, for tests."""

import json


def learned(*facts: dict[str, object], remove: tuple[str, ...] = (), **summaries: str) -> str:
    """An answer with these facts, sure of them where they do not say how sure; and these parts of `user`."""
    user = {key: {"summary": text, "shouldUpdate": True} for key, text in summaries.items()}
    sure = [{"category": "preference", "confidence": 0.9, **fact} for fact in facts]
    return json.dumps({"user": user, "newFacts": sure, "factsToRemove": list(remove)})
