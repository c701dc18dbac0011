"""Small helps around conversations: search, export, suggestions, polish, profile, features."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pydantic_core import to_jsonable_python

from deerflow.client.faces import Session
from deerflow.domain.principal import LOCAL_USER
from deerflow.runtime.export import ExportFormat


async def get_features(session: Session) -> dict[str, Any]:
    """What is on here: parts that are there and not switched off, the sandbox and the models."""
    features: dict[str, Any] = to_jsonable_python(asdict(session.harness.features()))
    return features


async def search(session: Session, query: str, limit: int = 20, cursor: str | None = None) -> dict[str, Any]:
    """Find what was said in any thread: all words of `query`, the best first.

    Raises:
        InvalidRequest: the cursor is not one that was given out.
    """
    page = await session.harness.resources.search.find(LOCAL_USER, query, limit, cursor)
    hits: list[dict[str, Any]] = to_jsonable_python([asdict(hit) for hit in page.hits])
    return {"hits": hits, "next_cursor": page.next_cursor}


async def export_thread(session: Session, thread_id: str, format: ExportFormat = "markdown") -> bytes:
    """A thread as one file: `markdown` for people, `json` for programs.

    Raises:
        NotFound: there is no such thread.
    """
    export = await session.harness.resources.exporter.export(thread_id, LOCAL_USER, format)
    return b"".join([piece async for piece in export.content])


async def suggest(
    session: Session,
    thread_id: str,
    n: int = 3,
    *,
    messages: Sequence[Mapping[str, str]] | None = None,
    model_name: str | None = None,
) -> dict[str, Any]:
    """Questions that may follow the latest answer; when there are none, `reason` says why.

    Raises:
        NotFound: there is no such thread or model.
    """
    if model_name is not None:
        session.harness.agents.model_card(model_name)
    found = await session.harness.resources.suggestions.suggest(thread_id, LOCAL_USER, n, messages, model_name)
    return {"suggestions": list(found.suggestions), "reason": found.reason}


async def polish(
    session: Session, text: str, locale: str | None = None, thread_id: str | None = None
) -> dict[str, Any]:
    """A request in better words; as it is when that fails.

    Raises:
        InvalidRequest: it is empty or too long.
        NotFound: there is no such thread.
    """
    found = await session.harness.resources.input_polish.polish(text, LOCAL_USER, locale, thread_id)
    return {"rewritten_text": found.text, "changed": found.changed, "reason": found.reason}


async def get_user_profile(session: Session) -> dict[str, str]:
    """What you say about yourself."""
    return {"content": await session.harness.resources.profiles.get(LOCAL_USER)}


async def update_user_profile(session: Session, content: str) -> dict[str, str]:
    """Say something about yourself, which your agents are told; an empty text removes it.

    Raises:
        InvalidRequest: it is too long.
    """
    return {"content": await session.harness.resources.profiles.put(LOCAL_USER, content)}
