"""Links under which anybody may read a thread, without any rights of their own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from secrets import token_urlsafe

from deerflow.config.sharing import SharingConfig
from deerflow.domain.errors import Conflict, FileProblem, InvalidRequest, NotFound
from deerflow.domain.ids import new_id
from deerflow.domain.principal import Principal
from deerflow.domain.sharing import Share
from deerflow.persistence import shares as rows
from deerflow.persistence.database import Database
from deerflow.persistence.said import Place, SaidPage, page_of, values_told
from deerflow.runtime.shared_view import Hide, Message, shown_message

TOKEN_BYTES = 32
NO_LINK = "there is nothing under this link: it was taken back, it has ended, or it never was one"


@dataclass(frozen=True, slots=True)
class NewShare:
    """A link that was just made, with its secret, which is told this once."""

    share: Share
    token: str


@dataclass(frozen=True, slots=True)
class Shared:
    """What somebody with a link may read."""

    share: Share
    title: str | None
    artifacts: Sequence[str]
    """The files the agent has presented, as the agent names them."""


@dataclass(frozen=True, slots=True)
class SharedPage:
    """Some messages, each with its time, and where the ones before them end."""

    messages: Sequence[tuple[Message, datetime]]
    earlier: Place | None


@dataclass(frozen=True, slots=True)
class Sharing:
    """Makes links and finds what they lead to.

    Whoever follows one sees what was said until it was made: a conversation can go on without being overheard.
    """

    database: Database
    settings: Callable[[], SharingConfig]
    hide: Hide
    now: Callable[[], datetime] = partial(datetime.now, UTC)

    async def share(self, thread_id: str, who: Principal, days: int | None = None) -> NewShare:
        """Make a link to a thread, for so many days, or for as long as is allowed.

        Raises:
            NotFound: there is no such thread.
            Conflict: sharing is switched off, or the thread has too many links.
            InvalidRequest: links may not work for so long.
        """
        settings = self.settings()
        if not settings.enabled:
            raise Conflict("sharing is switched off; `sharing.enabled: true` in config.yaml switches it on")
        if days is not None and settings.max_days is not None and days > settings.max_days:
            raise InvalidRequest(f"links work for at most {settings.max_days} days here, not {days}")
        lasts, now, token = days or settings.max_days, self.now(), token_urlsafe(TOKEN_BYTES)
        ends = now + timedelta(days=lasts) if lasts else None
        made = Share(new_id(), who.user_id, thread_id, now, ends)
        await self.database.write(partial(rows.insert_share, given=made, token_hash=hash_of(token)))
        return NewShare(made, token)

    async def list(self, thread_id: str, who: Principal) -> Sequence[Share]:
        """The links to a thread, newest first, also those that have ended, or `NotFound`."""
        return await self.database.read(partial(rows.list_shares, thread_id=thread_id, owner=who.user_id))

    async def revoke(self, thread_id: str, share_id: str, who: Principal) -> None:
        """Take a link back for good, or `NotFound`."""
        change = partial(rows.delete_share, thread_id=thread_id, owner=who.user_id, share_id=share_id)
        await self.database.write(change)

    async def open(self, token: str) -> Shared:
        """What a link leads to.

        Raises:
            NotFound: it leads nowhere, or no longer.
        """
        share, title = await self._find(token)
        values = await self.database.read(partial(values_told, thread_id=share.thread_id, until=share.created_at))
        presented = values.get("artifacts")
        paths = [path for path in presented if isinstance(path, str)] if isinstance(presented, list) else []
        return Shared(share, self.hide(title) if title else None, paths)

    async def page(self, token: str, before: Place | None, limit: int) -> SharedPage:
        """The last messages under a link, or the last before a place, or `NotFound`."""
        share, _ = await self._find(token)
        query = partial(page_of, thread_id=share.thread_id, before=before, limit=limit, until=share.created_at)
        page: SaidPage = await self.database.read(query)
        shown = [(shown_message(said, self.hide), said.said_at) for said in page.messages]
        return SharedPage([(message, at) for message, at in shown if message is not None], page.earlier)

    async def artifact(self, token: str, path: str) -> Share:
        """The link, when the agent has presented the file `path` to its owner.

        Raises:
            NotFound: the link leads nowhere, or no longer.
            FileProblem: the file was not presented.
        """
        shared = await self.open(token)
        if path not in shared.artifacts:
            raise FileProblem(f"{path!r} is not one of the files under this link")
        return shared.share

    async def _find(self, token: str) -> tuple[Share, str | None]:
        if not self.settings().enabled:
            raise NotFound(NO_LINK)
        found = await self.database.read(partial(rows.find_shared, token_hash=hash_of(token), now=self.now()))
        if found is None:
            raise NotFound(NO_LINK)
        return found


def hash_of(token: str) -> str:
    """What is kept of a link's secret; that has more chance in it than anybody can try, so one round is enough."""
    return sha256(token.encode("utf-8", "replace")).hexdigest()
