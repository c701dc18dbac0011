"""Public share links of threads."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from secrets import token_urlsafe
from typing import Any

from deerflow.agent_support.replies import HIDDEN
from deerflow.config.sections.base import Settings
from deerflow.config.sections.server import SharingConfig
from deerflow.domain.errors import Conflict, FileProblem, InvalidRequest, NotFound
from deerflow.domain.identity import Principal, new_id
from deerflow.domain.threads import ShareLink
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.messages import MessageCursor, MessageSlice, StoredMessage, read_page, read_values
from deerflow.runtime.transcript import content_text
from deerflow.services import queries as rows

Redact = Callable[[str], str]
"""Returns a text without the secrets of the configuration."""
Message = dict[str, Any]

SHARED_TYPES = ("human", "ai", "tool")
QUESTION_KEY = "human_input"
"""Artifact key of the question in the result of a tool that asks the user."""


def to_shared_message(stored: StoredMessage, redact: Redact) -> Message | None:
    """Return a message as the public sees it; None when it is not public."""
    fields = stored.fields
    extra = fields.get("additional_kwargs") or {}
    # Messages of abandoned branches were edited or regenerated: the owner no longer wants to show them.
    if fields["type"] not in SHARED_TYPES or extra.get(HIDDEN) or stored.left_behind_by is not None:
        return None
    message = {
        "type": fields["type"],
        "id": fields["id"],
        "content": read_text(fields["content"]),
        **{name: fields[name] for name in ("name", "status", "tool_call_id") if fields.get(name) is not None},
        **{
            name: list(list_tool_calls(fields[name]))
            for name in ("tool_calls", "invalid_tool_calls")
            if fields.get(name)
        },
    }
    artifact = fields.get("artifact")
    if isinstance(artifact, Mapping) and QUESTION_KEY in artifact:
        message["artifact"] = {QUESTION_KEY: artifact[QUESTION_KEY]}
    if files := list(list_files(extra.get("files"))):
        message["additional_kwargs"] = {"files": files}
    masked: Message = redact_value(message, redact)
    return masked


def read_text(content: object) -> str:
    """Return the text of a message, without images and reasoning."""
    return content if isinstance(content, str) else content_text(content)


def list_tool_calls(calls: Any) -> Iterator[Message]:
    """Yield id, name and arguments of tool calls."""
    for call in calls:
        yield {"id": call.get("id"), "name": call.get("name") or "", "args": call.get("args")}


def list_files(files: object) -> Iterator[Message]:
    """Yield the names of attached files; the files themselves are not shared."""
    for file in files if isinstance(files, list) else ():
        if isinstance(file, Mapping) and isinstance(file.get("filename"), str):
            size = file.get("size")
            yield {"filename": file["filename"], "path": "", "size": size if isinstance(size, int) else 0}


def redact_value(value: Any, redact: Redact) -> Any:
    """Return a JSON value without the secrets of the configuration."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redact(str(key)): redact_value(item, redact) for key, item in value.items()}
    return [redact_value(item, redact) for item in value] if isinstance(value, list) else value


TOKEN_BYTES = 32
LINK_NOT_FOUND = "share link not found: it was revoked, has expired or never existed"


@dataclass(frozen=True, slots=True)
class CreatedShare:
    """New share link with its token, which is returned only once."""

    share: ShareLink
    token: str


@dataclass(frozen=True, slots=True)
class SharedThreadView:
    """Public view of a thread."""

    share: ShareLink
    title: str | None
    artifacts: Sequence[str]
    """Paths of the files that the agent has presented."""


@dataclass(frozen=True, slots=True)
class SharedPage:
    """Messages with their times, and the cursor of the previous page."""

    messages: Sequence[tuple[Message, datetime]]
    earlier: MessageCursor | None


@dataclass(frozen=True, slots=True)
class SharingService:
    """Creates share links and reads threads through them.

    A link shows the thread as of its creation: later messages stay private.
    """

    database: Database
    settings: Settings[SharingConfig]
    redact: Redact
    now: Callable[[], datetime] = partial(datetime.now, UTC)

    async def create(self, thread_id: str, who: Principal, days: int | None = None) -> CreatedShare:
        """Create a share link that expires after `days`, or as late as the configuration allows.

        Raises:
            NotFound: The thread does not exist.
            Conflict: Sharing is disabled, or the thread has too many links.
            InvalidRequest: `days` exceeds the configured maximum.
        """
        settings = self.settings.current
        if not settings.enabled:
            raise Conflict("sharing is disabled; set `sharing.enabled: true` in config.yaml")
        if days is not None and settings.max_days is not None and days > settings.max_days:
            raise InvalidRequest(f"share links expire after at most {settings.max_days} days, not {days}")
        duration, now, token = days or settings.max_days, self.now(), token_urlsafe(TOKEN_BYTES)
        expires_at = now + timedelta(days=duration) if duration else None
        link = ShareLink(new_id(), who.user_id, thread_id, now, expires_at)
        await self.database.write(partial(rows.insert_share, new=link, token_hash=hash_token(token)))
        return CreatedShare(link, token)

    async def list(self, thread_id: str, who: Principal) -> Sequence[ShareLink]:
        """Return the share links of a thread, newest first, including expired ones, or raise `NotFound`."""
        return await self.database.read(partial(rows.list_shares, thread_id=thread_id, owner=who.user_id))

    async def revoke(self, thread_id: str, share_id: str, who: Principal) -> None:
        """Delete a share link, or raise `NotFound`."""
        change = partial(rows.delete_share, thread_id=thread_id, owner=who.user_id, share_id=share_id)
        await self.database.write(change)

    async def open(self, token: str) -> SharedThreadView:
        """Return the thread of a share link.

        Raises:
            NotFound: The link does not exist or has expired.
        """
        share, title = await self._find(token)
        values = await self.database.read(
            partial(read_values, thread_id=share.thread_id, until=share.end or share.created_at)
        )
        presented = values.get("artifacts")
        paths = [path for path in presented if isinstance(path, str)] if isinstance(presented, list) else []
        return SharedThreadView(share, self.redact(title) if title else None, paths)

    async def read_page(self, token: str, before: MessageCursor | None, limit: int) -> SharedPage:
        """Return the last messages of a shared thread, or the last before a cursor, or raise `NotFound`."""
        share, _ = await self._find(token)
        end = share.end or share.created_at
        query = partial(read_page, thread_id=share.thread_id, before=before, limit=limit, until=end)
        page: MessageSlice = await self.database.read(query)
        shown = [(to_shared_message(stored, self.redact), stored.created_at) for stored in page.messages]
        return SharedPage([(message, at) for message, at in shown if message is not None], page.earlier)

    async def find_artifact(self, token: str, path: str) -> ShareLink:
        """Return the share link if the agent has presented the file `path` in its thread.

        Raises:
            NotFound: The link does not exist or has expired.
            FileProblem: The file was not presented.
        """
        shared = await self.open(token)
        if path not in shared.artifacts:
            raise FileProblem(f"file {path!r} is not shared by this link")
        return shared.share

    async def _find(self, token: str) -> tuple[ShareLink, str | None]:
        if not self.settings.current.enabled:
            raise NotFound(LINK_NOT_FOUND)
        found = await self.database.read(partial(rows.find_share, token_hash=hash_token(token), now=self.now()))
        if found is None:
            raise NotFound(LINK_NOT_FOUND)
        return found


def hash_token(token: str) -> str:
    """Return the stored hash of a token. Tokens are random enough for one round of SHA-256."""
    return sha256(token.encode("utf-8", "replace")).hexdigest()
