"""SQL of teams, their members and grants."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from deerflow.domain.errors import Conflict, Forbidden, NotFound
from deerflow.domain.identity import DELETED_OWNER, SharedThing, new_id
from deerflow.domain.runs import RunRecord
from deerflow.persistence.queries.runs import select_runs
from deerflow.persistence.queries.threads import LATEST_RUN_STATUS, WAITS_FOR, build_thread_record, find_thread
from deerflow.persistence.tables import ACTIVE, accepted_skills, accounts, grants, runs, team_members, teams, threads
from deerflow.persistence.tables.runs import insert_or_ignore
from deerflow.teams.model import (
    NO_ACCOUNTS,
    Access,
    Grant,
    Grantee,
    SharedResource,
    SharedThreadEntry,
    Team,
    TeamMember,
    TeamRole,
    ThreadAccess,
)

MAX_TEAMS, MAX_MEMBERS, MAX_GRANTS = 500, 1000, 200
"""Maximum number of teams, of members of a team, and of grants of one thing."""
LAST_OWNER = "this is the last owner of the team; make another member an owner, or delete the team"


def select_teams(user_id: str) -> Select[Any]:
    """Select teams with the role of a person and the number of members."""
    own = team_members.alias()
    count = select(func.count()).where(team_members.c.team_id == teams.c.team_id).scalar_subquery()
    joined = teams.outerjoin(own, and_(own.c.team_id == teams.c.team_id, own.c.user_id == user_id))
    query = select(teams.c.team_id, teams.c.name, teams.c.created_at, own.c.role, count.label("members"))
    return query.select_from(joined)


def list_teams(connection: Connection, user_id: str, *, every: bool) -> Sequence[Team]:
    """Return the teams of a person, or every team, by name."""
    query = select_teams(user_id).order_by(teams.c.name, teams.c.team_id)
    found = [Team(**row._mapping) for row in connection.execute(query)]
    return [team for team in found if every or team.role is not None]


def find_team(connection: Connection, team_id: str, user_id: str, *, is_admin: bool = False) -> Team:
    """Return a team, or raise `NotFound` if the person is neither a member nor an administrator."""
    row = connection.execute(select_teams(user_id).where(teams.c.team_id == team_id)).first()
    if row is None or (row.role is None and not is_admin):
        raise NotFound(f"no team {team_id!r}")
    return Team(**row._mapping)


def find_managed_team(connection: Connection, team_id: str, user_id: str, *, is_admin: bool) -> Team:
    """Return a team that a person may change.

    Raises:
        NotFound: The person is neither a member nor an administrator.
        Forbidden: The person is a member only.
    """
    team = find_team(connection, team_id, user_id, is_admin=is_admin)
    if team.role != "owner" and not is_admin:
        raise Forbidden("only owners of the team and administrators can change it")
    return team


def create_team(connection: Connection, name: str, user_id: str, now: datetime) -> Team:
    """Create a team whose owner is the person who creates it.

    Raises:
        Conflict: There are no accounts, or too many teams.
    """
    check_account(connection, user_id)
    if (connection.execute(select(func.count()).select_from(teams)).scalar() or 0) >= MAX_TEAMS:
        raise Conflict(f"there are {MAX_TEAMS} teams, which is the maximum; delete one first")
    team = Team(new_id(), name, now, "owner", 1)
    connection.execute(insert(teams), {"team_id": team.team_id, "name": name, "created_at": now})
    member = {"team_id": team.team_id, "user_id": user_id, "role": "owner", "added_at": now}
    connection.execute(insert(team_members), member)
    return team


def check_account(connection: Connection, user_id: str) -> None:
    """Raise `Conflict` if a user has no account, as on a server without a login."""
    if connection.execute(select(accounts.c.user_id).where(accounts.c.user_id == user_id)).first() is None:
        raise Conflict(NO_ACCOUNTS)


def rename_team(connection: Connection, team_id: str, user_id: str, name: str, *, is_admin: bool) -> Team:
    """Rename a team; raises what `find_managed_team` does."""
    find_managed_team(connection, team_id, user_id, is_admin=is_admin)
    connection.execute(update(teams).where(teams.c.team_id == team_id), {"name": name})
    return find_team(connection, team_id, user_id, is_admin=is_admin)


def delete_team(connection: Connection, team_id: str, user_id: str, *, is_admin: bool) -> None:
    """Delete a team with what was shared with it; raises what `find_managed_team` does."""
    find_managed_team(connection, team_id, user_id, is_admin=is_admin)
    connection.execute(delete(teams).where(teams.c.team_id == team_id))
    end_acceptances(connection)


def list_members(connection: Connection, team_id: str, user_id: str, *, is_admin: bool) -> Sequence[TeamMember]:
    """Return the members of a team by address, or raise `NotFound`."""
    find_team(connection, team_id, user_id, is_admin=is_admin)
    return read_members(connection, team_id)


def read_members(connection: Connection, team_id: str) -> Sequence[TeamMember]:
    """Return the members of a team by address."""
    columns = (team_members.c.user_id, accounts.c.email, team_members.c.role, team_members.c.added_at)
    query = select(*columns).join(accounts, accounts.c.user_id == team_members.c.user_id)
    found = query.where(team_members.c.team_id == team_id).order_by(accounts.c.email_key)
    return [TeamMember(**row._mapping) for row in connection.execute(found)]


def put_member(
    connection: Connection, team_id: str, user_id: str, member: str, role: TeamRole, now: datetime, *, is_admin: bool
) -> TeamMember:
    """Add a member to a team, or change the role of one.

    Raises:
        NotFound: There is no such team or person.
        Forbidden: The person who asks is a member only.
        Conflict: The team has too many members, or would have no owner.
    """
    find_managed_team(connection, team_id, user_id, is_admin=is_admin)
    lock_team(connection, team_id)
    known = {each.user_id: each for each in read_members(connection, team_id)}
    if member in known:
        check_other_owner(known.values(), member, role)
        connection.execute(update(team_members).where(match_member(team_id, member)), {"role": role})
    else:
        if len(known) >= MAX_MEMBERS:
            raise Conflict(f"a team has at most {MAX_MEMBERS} members")
        check_account(connection, member)
        row = {"team_id": team_id, "user_id": member, "role": role, "added_at": now}
        connection.execute(insert(team_members), row)
    return next(each for each in read_members(connection, team_id) if each.user_id == member)


def remove_member(connection: Connection, team_id: str, user_id: str, member: str, *, is_admin: bool) -> None:
    """Remove a member, and what the member has shared with the team. Every member may leave.

    Raises:
        NotFound: There is no such team or member.
        Forbidden: The person who asks is a member only, and removes another person.
        Conflict: The team would have no owner.
    """
    if member == user_id:
        find_team(connection, team_id, user_id, is_admin=is_admin)
    else:
        find_managed_team(connection, team_id, user_id, is_admin=is_admin)
    lock_team(connection, team_id)
    known = read_members(connection, team_id)
    if member not in {each.user_id for each in known}:
        raise NotFound(f"no member {member!r}")
    check_other_owner(known, member, None)
    connection.execute(delete(team_members).where(match_member(team_id, member)))
    connection.execute(delete(grants).where(grants.c.team_id == team_id, grants.c.owner == member))
    end_acceptances(connection)


def match_member(team_id: ColumnElement[str] | str, user_id: ColumnElement[str] | str) -> ColumnElement[bool]:
    """Return the condition that matches a member."""
    return and_(team_members.c.team_id == team_id, team_members.c.user_id == user_id)


def lock_team(connection: Connection, team_id: str) -> None:
    """Lock a team until the end of the transaction, so that its last two owners cannot leave at the same time."""
    connection.execute(select(teams.c.team_id).where(teams.c.team_id == team_id).with_for_update())


def check_other_owner(members: Any, changed: str, role: TeamRole | None) -> None:
    """Raise `Conflict` if a team has no owner after the role of a member changes."""
    owners = {each.user_id for each in members if each.role == "owner"}
    if role != "owner" and owners == {changed}:
        raise Conflict(LAST_OWNER)


def repair_teams(connection: Connection) -> None:
    """Delete teams without members. The member of longest standing owns a team whose owners were deleted."""
    members = select(team_members.c.team_id)
    connection.execute(delete(teams).where(teams.c.team_id.not_in(members)))
    owned = select(team_members.c.team_id).where(team_members.c.role == "owner")
    for team_id in connection.execute(select(teams.c.team_id).where(teams.c.team_id.not_in(owned))).scalars().all():
        of_team = select(team_members.c.user_id).where(team_members.c.team_id == team_id)
        oldest = connection.execute(of_team.order_by(team_members.c.added_at, team_members.c.user_id).limit(1)).scalar()
        connection.execute(update(team_members).where(match_member(team_id, oldest or "")), {"role": "owner"})


def match_resource(resource: SharedResource) -> ColumnElement[bool]:
    """Return the condition that matches the grants of a thing."""
    same = (grants.c.owner == resource.owner, grants.c.kind == resource.kind, grants.c.resource == resource.name)
    return and_(*same)


def list_grants(connection: Connection, resource: SharedResource) -> Sequence[Grant]:
    """Return the grants of a thing, oldest first; raises `NotFound` for a thread of another person."""
    check_thread(connection, resource)
    name = func.coalesce(accounts.c.email, teams.c.name).label("name")
    columns = (grants.c[each] for each in ("grant_id", "access", "created_at", "user_id", "team_id"))
    joined = grants.outerjoin(accounts, accounts.c.user_id == grants.c.user_id)
    joined = joined.outerjoin(teams, teams.c.team_id == grants.c.team_id)
    query = select(*columns, name).select_from(joined).where(match_resource(resource))
    return [Grant(**row._mapping) for row in connection.execute(query.order_by(grants.c.grant_id))]


def check_thread(connection: Connection, resource: SharedResource) -> None:
    """Raise `NotFound` for a thread that does not exist or has another owner."""
    if resource.kind == "thread":
        find_thread(connection, resource.name, resource.owner)


def put_grant(connection: Connection, resource: SharedResource, to: Grantee, access: Access, now: datetime) -> Grant:
    """Share a thing, or change the access of a person or team that it is shared with.

    Raises:
        NotFound: The thread belongs to another person, or the owner is not a member of the team.
        Conflict: There are no accounts, the person is the owner, or the thing has too many grants.
    """
    check_account(connection, resource.owner)
    check_thread(connection, resource)
    if to.team_id is not None:
        find_team(connection, to.team_id, resource.owner)
    elif to.user_id == resource.owner:
        raise Conflict("you are the owner")
    lock_account(connection, resource.owner)
    known = list_grants(connection, resource)
    found = next((each for each in known if (each.user_id, each.team_id) == (to.user_id, to.team_id)), None)
    if found is not None:
        connection.execute(update(grants).where(grants.c.grant_id == found.grant_id), {"access": access})
        return Grant(**{**asdict(found), "access": access})
    if len(known) >= MAX_GRANTS:
        raise Conflict(f"this is shared with {MAX_GRANTS} people and teams, which is the maximum")
    row = {
        "grant_id": new_id(),
        "owner": resource.owner,
        "kind": resource.kind,
        "resource": resource.name,
        "thread_id": resource.name if resource.kind == "thread" else None,
        **asdict(to),
        "access": access,
        "created_at": now,
    }
    connection.execute(insert(grants), row)
    return next(each for each in list_grants(connection, resource) if each.grant_id == row["grant_id"])


def lock_account(connection: Connection, user_id: str) -> None:
    """Lock an account until the end of the transaction, so that no grant is made twice."""
    connection.execute(select(accounts.c.user_id).where(accounts.c.user_id == user_id).with_for_update())


def delete_grant(connection: Connection, resource: SharedResource, grant_id: str) -> None:
    """Stop sharing a thing with a person or team, or raise `NotFound`."""
    check_thread(connection, resource)
    owned = match_resource(resource) & (grants.c.grant_id == grant_id)
    if connection.execute(delete(grants).where(owned)).rowcount != 1:
        raise NotFound(f"no grant {grant_id!r}")
    end_acceptances(connection)


def end_grants(connection: Connection, resource: SharedResource) -> None:
    """End the grants of a thing that is deleted, or that is new and has the name of a deleted one."""
    connection.execute(delete(grants).where(match_resource(resource)))
    end_acceptances(connection)


def match_grantee(user_id: ColumnElement[str] | str) -> ColumnElement[bool]:
    """Return the condition that matches what is shared with a person, directly or with a team of theirs."""
    own = select(team_members.c.team_id).where(team_members.c.user_id == user_id)
    return or_(grants.c.user_id == user_id, grants.c.team_id.in_(own))


STRENGTH = case((grants.c.access == "write", 1), else_=0)
FIND_THREAD_ACCESS = (
    select(grants.c.owner, grants.c.access)
    .join(threads, and_(threads.c.thread_id == grants.c.thread_id, threads.c.owner == grants.c.owner))
    .where(grants.c.thread_id == bindparam("thread"), grants.c.owner != bindparam("person"))
    .where(match_grantee(bindparam("person", type_=grants.c.user_id.type)))
    .order_by(STRENGTH.desc())
    .limit(1)
)
"""Built once: it is used by every request for a thread while there are accounts."""


def find_thread_access(connection: Connection, thread_id: str, user_id: str) -> ThreadAccess | None:
    """Return the right of a person to the thread of another person, the strongest of several; None if there is none."""
    row = connection.execute(FIND_THREAD_ACCESS, {"thread": thread_id, "person": user_id}).first()
    return None if row is None else ThreadAccess(row.owner, row.access)


def list_shared_threads(connection: Connection, user_id: str) -> Sequence[SharedThreadEntry]:
    """Return the threads that others share with a person, latest activity first."""
    columns = (*threads.c, LATEST_RUN_STATUS.label("run_status"), WAITS_FOR.label("waits_for"))
    shared = grants.join(threads, and_(threads.c.thread_id == grants.c.thread_id, threads.c.owner == grants.c.owner))
    shared = shared.join(accounts, accounts.c.user_id == grants.c.owner)
    query = select(*columns, grants.c.access.label("access"), accounts.c.email.label("shared_by")).select_from(shared)
    query = query.where(match_grantee(user_id), grants.c.owner.not_in((user_id, DELETED_OWNER)))
    found: dict[str, SharedThreadEntry] = {}
    for row in connection.execute(query.order_by(threads.c.activity.desc(), STRENGTH.desc())):
        fields = dict(row._mapping)
        access, shared_by = fields.pop("access"), fields.pop("shared_by")
        found.setdefault(row.thread_id, SharedThreadEntry(build_thread_record(fields), access, shared_by))
    return list(found.values())


def list_shared_things(connection: Connection, user_id: str) -> Sequence[SharedThing]:
    """Return the agents and skills that others share with a person, by name; the strongest of several rights counts."""
    other, name = grants.alias(), grants.c.resource.label("name")
    same = (other.c.owner == grants.c.owner, other.c.kind == grants.c.kind, other.c.resource == grants.c.resource)
    editors = select(other.c.grant_id).where(*same, other.c.access == "write")
    editors = editors.where(func.coalesce(other.c.user_id, "") != user_id).correlate(grants)
    accepted = select(accepted_skills.c.name).where(
        accepted_skills.c.user_id == user_id, accepted_skills.c.owner == grants.c.owner
    )
    accepted = accepted.where(accepted_skills.c.name == grants.c.resource, grants.c.kind == "skill").correlate(grants)
    columns = (grants.c.owner, grants.c.kind, name, grants.c.access, accounts.c.email.label("shared_by"))
    query = select(*columns, editors.exists().label("has_editors"), accepted.exists().label("is_accepted"))
    query = query.select_from(grants.join(accounts, accounts.c.user_id == grants.c.owner))
    query = query.where(grants.c.kind != "thread", grants.c.owner != user_id, match_grantee(user_id))
    found: dict[tuple[str, str], SharedThing] = {}
    for row in connection.execute(query.order_by(name, grants.c.owner, STRENGTH.desc())):
        thing = SharedThing(**row._mapping)
        found.setdefault((thing.kind, thing.address), thing)
    return list(found.values())


def accept_skill(connection: Connection, user_id: str, thing: SharedThing, *, accepted: bool) -> None:
    """Switch a shared skill on or off for a person."""
    row = {"user_id": user_id, "owner": thing.owner, "name": thing.name}
    if accepted:
        insert_or_ignore(connection, accepted_skills, row)
    else:
        same = (accepted_skills.c[column] == value for column, value in row.items())
        connection.execute(delete(accepted_skills).where(*same))


def end_acceptances(connection: Connection) -> None:
    """Forget that people have switched on skills that are no longer shared with them."""
    person = accepted_skills.c.user_id
    member = select(team_members.c.team_id).where(match_member(grants.c.team_id, person))
    is_grantee = or_(grants.c.user_id == person, member.correlate(grants, accepted_skills).exists())
    shared = select(grants.c.grant_id).where(grants.c.kind == "skill", grants.c.owner == accepted_skills.c.owner)
    shared = shared.where(grants.c.resource == accepted_skills.c.name, is_grantee)
    connection.execute(delete(accepted_skills).where(~shared.correlate(accepted_skills).exists()))


def list_started_runs(connection: Connection, user_id: str) -> Sequence[RunRecord]:
    """Return the unfinished runs that a person has started in threads of others."""
    return select_runs(connection, (runs.c.started_by == user_id) & ACTIVE)


def forget_starter(connection: Connection, user_id: str) -> None:
    """Remove a deleted person from the runs that they have started in threads of others."""
    connection.execute(update(runs).where(runs.c.started_by == user_id), {"started_by": DELETED_OWNER})
