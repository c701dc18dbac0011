"""Output of the extraction model, for tests."""

import json


def learned(*facts: dict[str, object], remove: tuple[str, ...] = (), **summaries: str) -> str:
    """Return an output with these facts and summaries; the default confidence is high."""
    user = {key: {"summary": text, "shouldUpdate": True} for key, text in summaries.items()}
    sure = [{"category": "preference", "confidence": 0.9, **fact} for fact in facts]
    return json.dumps({"user": user, "newFacts": sure, "factsToRemove": list(remove)})
