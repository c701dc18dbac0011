"""Operations on teams, and on grants: what a person shares with people and teams."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from deerflow.config.sections.base import Settings
from deerflow.config.sections.server import UsersConfig
from deerflow.domain.errors import Forbidden
from deerflow.domain.identity import Principal
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.audit import AuditEvent, AuditKind, recorded, write_recorded
from deerflow.teams import queries as rows
from deerflow.teams.model import (
    Access,
    Grant,
    Grantee,
    SharedResource,
    SharedThreadEntry,
    Team,
    TeamMember,
    TeamRole,
    ThreadAccess,
    clean_team_name,
)


@dataclass(frozen=True, slots=True)
class TeamService:
    """Creates and changes teams. `on_change` ends open requests of people who have lost their access."""

    database: Database
    settings: Settings[UsersConfig]
    on_change: Callable[[], Awaitable[None]]
    now: Callable[[], datetime] = partial(datetime.now, UTC)

    async def list(self, who: Principal, *, every: bool = False) -> Sequence[Team]:
        """Return the teams of a person; with `every`, all teams, for administrators only."""
        return await self.database.read(partial(rows.list_teams, user_id=who.user_id, every=every and who.is_admin))

    async def get(self, team_id: str, who: Principal) -> Team:
        """Return a team, or raise `NotFound` if the person is neither a member nor an administrator."""
        query = partial(rows.find_team, team_id=team_id, user_id=who.user_id, is_admin=who.is_admin)
        return await self.database.read(query)

    async def create(self, name: str, who: Principal) -> Team:
        """Create a team; its creator is its owner.

        Raises:
            InvalidRequest: The name is not valid.
            Forbidden: Only administrators may create teams here.
            Conflict: There are no accounts, or too many teams.
        """
        if self.settings.current.team_creation == "admins" and not who.is_admin:
            raise Forbidden("only administrators can create teams on this server")
        change = partial(rows.create_team, name=clean_team_name(name), user_id=who.user_id, now=self.now())

        def describe(team: Team) -> Sequence[AuditEvent]:
            return (make_event("configuration.team", who, action="create_team", team=team.team_id, name=team.name),)

        return await self.database.write(partial(write_recorded, change=change, describe=describe))

    async def rename(self, team_id: str, name: str, who: Principal) -> Team:
        """Rename a team.

        Raises:
            InvalidRequest: The name is not valid.
            NotFound: The person is neither a member nor an administrator.
            Forbidden: The person is a member only.
        """
        name = clean_team_name(name)
        change = partial(rows.rename_team, team_id=team_id, user_id=who.user_id, name=name, is_admin=who.is_admin)
        event = make_event("configuration.team", who, action="rename_team", team=team_id, name=name)
        return await self.database.write(recorded(change, event))

    async def delete(self, team_id: str, who: Principal) -> None:
        """Delete a team and the grants to it; raises what `rename` does."""
        change = partial(rows.delete_team, team_id=team_id, user_id=who.user_id, is_admin=who.is_admin)
        event = make_event("configuration.team", who, action="delete_team", team=team_id)
        await self.database.write(recorded(change, event))
        await self.on_change()

    async def list_members(self, team_id: str, who: Principal) -> Sequence[TeamMember]:
        """Return the members of a team by address, or raise `NotFound`."""
        query = partial(rows.list_members, team_id=team_id, user_id=who.user_id, is_admin=who.is_admin)
        return await self.database.read(query)

    async def put_member(self, team_id: str, member: str, role: TeamRole, who: Principal) -> TeamMember:
        """Add a member to a team, or change the role of one.

        Raises:
            NotFound: There is no such team.
            Forbidden: The person who asks is a member only.
            Conflict: The team has too many members, or would have no owner.
        """
        put = partial(rows.put_member, team_id=team_id, user_id=who.user_id, member=member, role=role)
        change = partial(put, now=self.now(), is_admin=who.is_admin)
        event = make_event("configuration.team", who, member, action="put_member", team=team_id, role=role)
        return await self.database.write(recorded(change, event))

    async def remove_member(self, team_id: str, member: str, who: Principal) -> None:
        """Remove a member with what they share with the team; every member may leave.

        Raises:
            NotFound: There is no such team or member.
            Forbidden: The person who asks is a member only, and removes another person.
            Conflict: The team would have no owner.
        """
        remove = partial(rows.remove_member, team_id=team_id, user_id=who.user_id, member=member)
        event = make_event("configuration.team", who, member, action="remove_member", team=team_id)
        await self.database.write(recorded(partial(remove, is_admin=who.is_admin), event))
        await self.on_change()


@dataclass(frozen=True, slots=True)
class GrantService:
    """Shares things of people. `on_change` ends open requests of people who have lost their access."""

    database: Database
    on_change: Callable[[], Awaitable[None]]
    now: Callable[[], datetime] = partial(datetime.now, UTC)

    async def list(self, resource: SharedResource) -> Sequence[Grant]:
        """Return the grants of a thing, oldest first; raises `NotFound` for a thread of another person."""
        return await self.database.read(partial(rows.list_grants, resource=resource))

    async def share(self, resource: SharedResource, to: Grantee, access: Access) -> Grant:
        """Share a thing, or change the access of a person or team that it is shared with.

        Raises:
            NotFound: The thread belongs to another person, or the owner is not a member of the team.
            Conflict: There are no accounts, the person is the owner, or the thing has too many grants.
        """
        change = partial(rows.put_grant, resource=resource, to=to, access=access, now=self.now())
        team = {"team": to.team_id} if to.team_id else {}
        event = self._make_event(resource, "share", to.user_id, access=access, **team)
        made = await self.database.write(recorded(change, event))
        await self.on_change()
        return made

    async def revoke(self, resource: SharedResource, grant_id: str) -> None:
        """Stop sharing a thing with a person or team, or raise `NotFound`. Their open streams end."""
        change = partial(rows.delete_grant, resource=resource, grant_id=grant_id)
        await self.database.write(recorded(change, self._make_event(resource, "revoke", None, grant=grant_id)))
        await self.on_change()

    async def find_thread_access(self, thread_id: str, who: Principal) -> ThreadAccess | None:
        """Return the right of a person to the thread of another person; None if there is none."""
        query = partial(rows.find_thread_access, thread_id=thread_id, user_id=who.user_id)
        return await self.database.look_up(query)

    async def list_shared_threads(self, who: Principal) -> Sequence[SharedThreadEntry]:
        """Return the threads that others share with a person, latest activity first."""
        return await self.database.read(partial(rows.list_shared_threads, user_id=who.user_id))

    def _make_event(self, resource: SharedResource, action: str, subject: str | None, **details: str) -> AuditEvent:
        named = {"action": action, resource.kind: resource.name, **details}
        return make_event("configuration.grant", Principal(resource.owner), subject, **named)


def make_event(kind: AuditKind, who: Principal, subject: str | None = None, **details: str) -> AuditEvent:
    """Return the event of a change; `subject` is the other person whom it concerns, if any."""
    return AuditEvent(kind, who.user_id, subject or who.user_id, details=details)
