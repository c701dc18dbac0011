"""/threads/{thread_id}/suggestions, /suggestions/config and /input-polish: small helps by a model"""

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from deerflow.gateway.dependencies import TheHarness, Who

router = APIRouter(tags=["suggestions"])


class Said(BaseModel):
    """A message of the conversation."""

    role: Annotated[str, Field(min_length=1, max_length=32)]
    content: Annotated[str, Field(max_length=100_000)]


class Suggest(BaseModel):
    """Body of a request for follow-up questions; without messages, what the thread holds is read."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"n": 3}})

    messages: Annotated[list[Said] | None, Field(max_length=100)] = None
    n: Annotated[int, Field(ge=1, le=5)] = 3
    model_name: Annotated[str | None, Field(max_length=255)] = None


class Suggestions(BaseModel):
    """Follow-up questions; when there are none, `reason` says why."""

    suggestions: list[str]
    reason: str | None


class SuggestionsSettings(BaseModel):
    """Whether follow-up questions are offered, and how many at most."""

    enabled: bool
    max_suggestions: int


class Polish(BaseModel):
    """Body of a request for better words."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"text": "plan trip rome 1 week train", "locale": "en-US"}}
    )

    text: Annotated[str, Field(min_length=1, max_length=100_000)]
    locale: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9-]{1,35}$")] = None
    thread_id: Annotated[str | None, Field(max_length=64)] = None


class Polished(BaseModel):
    """A request in better words; when it is as it was, `reason` may say why."""

    rewritten_text: str
    changed: bool
    reason: str | None


@router.post("/threads/{thread_id}/suggestions", summary="Think of follow-up questions")
async def suggest(thread_id: str, body: Suggest, harness: TheHarness, who: Who) -> Suggestions:
    """Questions that may follow the latest answer; a model that fails makes for an empty list, not for an error."""
    if body.model_name is not None:
        harness.agents.model_card(body.model_name)
    said = [message.model_dump() for message in body.messages] if body.messages is not None else None
    found = await harness.resources.suggestions.suggest(thread_id, who, body.n, said, body.model_name)
    return Suggestions(suggestions=list(found.suggestions), reason=found.reason)


@router.get("/suggestions/config", summary="Whether follow-up questions are offered")
async def get_config(harness: TheHarness, who: Who) -> SuggestionsSettings:
    """Whether follow-up questions are offered, and how many at most."""
    return SuggestionsSettings.model_validate(harness.resources.suggestions.settings(), from_attributes=True)


@router.post("/input-polish", summary="Put a request into better words")
async def polish(body: Polish, harness: TheHarness, who: Who) -> Polished:
    """The text in better words, to be looked at before it is sent; a model that fails leaves it as it is."""
    found = await harness.resources.input_polish.polish(body.text, who, body.locale, body.thread_id)
    return Polished(rewritten_text=found.text, changed=found.changed, reason=found.reason)
