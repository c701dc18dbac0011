"""Model calls besides runs: /threads/{thread_id}/suggestions, /threads/{thread_id}/compact and /input-polish."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from deerflow.gateway.dependencies import CurrentUser, HarnessDep, ThreadOwner
from deerflow.services.prompt_assistance import CompactionStatus

router = APIRouter(tags=["suggestions"])


class Said(BaseModel):
    """Message of the conversation."""

    role: Annotated[str, Field(min_length=1, max_length=32)]
    content: Annotated[str, Field(max_length=100_000)]


class Suggest(BaseModel):
    """Body of a request for follow-up questions; without messages, those of the thread are used."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"n": 3}})

    messages: Annotated[list[Said] | None, Field(max_length=100)] = None
    n: Annotated[int, Field(ge=1, le=5)] = 3
    model_name: Annotated[str | None, Field(max_length=255)] = None


class Suggestions(BaseModel):
    """Follow-up questions; if there are none, `reason` says why."""

    suggestions: list[str]
    reason: str | None


class SuggestionsSettings(BaseModel):
    """Settings of follow-up questions."""

    enabled: bool
    max_suggestions: int


class Compact(BaseModel):
    """Body of a compaction; optional."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"model_name": None}})

    model_name: Annotated[str | None, Field(max_length=255)] = None


class Compacted(BaseModel):
    """Number of messages that were summarized, and estimated tokens; if none was, `reason` says why."""

    status: CompactionStatus
    summarized: int
    tokens_before: int
    tokens_after: int
    reason: str | None


class Polish(BaseModel):
    """Prompt to rewrite."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"text": "plan trip rome 1 week train", "locale": "en-US"}}
    )

    text: Annotated[str, Field(min_length=1, max_length=100_000)]
    locale: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9-]{1,35}$")] = None
    thread_id: Annotated[str | None, Field(max_length=64)] = None


class Polished(BaseModel):
    """Rewritten prompt; if it is unchanged, `reason` may say why."""

    rewritten_text: str
    changed: bool
    reason: str | None


@router.post("/threads/{thread_id}/suggestions", summary="Suggest follow-up questions")
async def suggest(thread_id: str, body: Suggest, harness: HarnessDep, user: ThreadOwner) -> Suggestions:
    """Suggest questions that may follow the latest answer; if the model fails, the list is empty."""
    if body.model_name is not None:
        harness.core.agents.model_card(body.model_name, user.user_id)
    messages = [message.model_dump() for message in body.messages] if body.messages is not None else None
    found = await harness.resources.suggestions.suggest(thread_id, user, body.n, messages, body.model_name)
    return Suggestions(suggestions=list(found.suggestions), reason=found.reason)


@router.post("/threads/{thread_id}/compact", summary="Summarize earlier messages")
async def compact(thread_id: str, harness: HarnessDep, user: ThreadOwner, body: Compact | None = None) -> Compacted:
    """Replace all but the latest exchange in the agent's context by a summary; 409 while a run is active.

    The messages themselves are kept. If the model fails, nothing is changed.
    """
    name = body.model_name if body else None
    if name is not None:
        harness.core.agents.model_card(name, user.user_id)
    return Compacted.model_validate(await harness.compaction.compact(thread_id, user, name), from_attributes=True)


@router.get("/suggestions/config", summary="Get the settings of follow-up questions")
async def get_config(harness: HarnessDep, user: CurrentUser) -> SuggestionsSettings:
    """Get whether follow-up questions are enabled, and their maximum number."""
    return SuggestionsSettings.model_validate(harness.resources.suggestions.settings.current, from_attributes=True)


@router.post("/input-polish", summary="Rewrite a prompt")
async def polish(body: Polish, harness: HarnessDep, user: CurrentUser) -> Polished:
    """Rewrite a prompt before it is sent; if the model fails, it is returned unchanged."""
    found = await harness.resources.input_polish.polish(body.text, user, body.locale, body.thread_id)
    return Polished(rewritten_text=found.text, changed=found.changed, reason=found.reason)
