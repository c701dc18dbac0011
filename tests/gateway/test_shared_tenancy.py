"""Random grants of agents and skills: whatever people do, a simple model says what each of them may."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.gateway.account_server import USER
from tests.gateway.shared_people import EVE, open_people, user_id

pytestmark = pytest.mark.slow

NAMES = ("ann", "bob", "eve")
EMAILS = dict(zip(NAMES, ("ann@example.com", USER, EVE), strict=True))
SKILL = "---\nname: {name}\ndescription: Skill of {owner}.\n---\nVersion {version}.\n"
OPERATIONS = ("share", "share", "share", "unshare", "join", "leave", "read", "write", "use", "accept")
STEP = st.tuples(
    st.sampled_from(OPERATIONS),
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
    st.sampled_from(("agent", "skill")),
    st.sampled_from((*NAMES, "team", "team")),
    st.sampled_from(("read", "write")),
)
Step = tuple[str, str, str, str, str, str]


@dataclass
class Model:
    """What has been shared, as plain data."""

    grants: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """Access by owner, kind and grantee."""
    members: set[str] = field(default_factory=lambda: {"ann"})
    accepted: set[tuple[str, str]] = field(default_factory=set)
    """People and the owners whose skill they have switched on."""

    def access(self, person: str, owner: str, kind: str) -> str | None:
        """Return the right of a person to a thing of another one."""
        through = ["team"] if person in self.members else []
        found = {self.grants.get((owner, kind, to)) for to in (person, *through)} - {None}
        return "write" if "write" in found else "read" if found else None

    def forget(self) -> None:
        """End what depends on an access that is gone."""
        self.accepted = {(who, owner) for who, owner in self.accepted if self.access(who, owner, "skill")}

    def expect_shared(self, person: str) -> set[tuple[str, str, str, bool]]:
        """Return what a person finds in the list of what is shared with them."""
        found = set()
        for owner in set(NAMES) - {person}:
            for kind in ("agent", "skill"):
                if access := self.access(person, owner, kind):
                    found.add((EMAILS[owner], kind, access, kind == "skill" and (person, owner) in self.accepted))
        return found


@dataclass
class Server:
    """Server with three people, who each have an agent and a skill, and a team."""

    clients: dict[str, httpx.AsyncClient]
    ids: dict[str, str]
    team: str
    grant_ids: dict[tuple[str, str, str], str] = field(default_factory=dict)
    model: Model = field(default_factory=Model)
    version: int = 0

    def path(self, owner: str, kind: str, person: str) -> str:
        """Return the path of a thing, as a person names it."""
        at = "" if owner == person else f"@{self.ids[owner]}"
        return f"/api/agents/scribe{at}" if kind == "agent" else f"/api/skills/custom/fruit-{owner}{at}"

    async def take(self, step: Step) -> None:
        """Do one operation, and compare the answer with what the model expects."""
        operation, person, owner, kind, to, access = step
        if operation in ("share", "unshare"):
            await getattr(self, operation)(owner, kind, to, access)
        elif operation in ("join", "leave"):
            await getattr(self, operation)(person)
        elif person != owner:
            await getattr(self, operation)(person, owner, kind)
        await self.check_list(person)

    async def share(self, owner: str, kind: str, to: str, access: str) -> None:
        body = {"team_id": self.team} if to == "team" else {"email": EMAILS[to]}
        path = f"{self.path(owner, kind, owner)}/grants"
        answer = await self.clients[owner].post(path, json={**body, "access": access})
        if to == owner or (to == "team" and owner not in self.model.members):
            assert answer.status_code == (409 if to == owner else 404), answer.text
            return
        assert answer.status_code == 200, answer.text
        self.model.grants[owner, kind, to] = access
        self.grant_ids[owner, kind, to] = answer.json()["grant_id"]

    async def unshare(self, owner: str, kind: str, to: str, access: str) -> None:
        if self.model.grants.pop((owner, kind, to), None) is not None:
            path = f"{self.path(owner, kind, owner)}/grants/{self.grant_ids[owner, kind, to]}"
            assert (await self.clients[owner].delete(path)).status_code == 204
            self.model.forget()

    async def join(self, person: str) -> None:
        role = "owner" if person == "ann" else "member"
        body = {"email": EMAILS[person], "role": role}
        assert (await self.clients["ann"].post(f"/api/teams/{self.team}/members", json=body)).status_code == 200
        self.model.members.add(person)

    async def leave(self, person: str) -> None:
        left = await self.clients[person].delete(f"/api/teams/{self.team}/members/{self.ids[person]}")
        if person == "ann" or person not in self.model.members:  # the last owner stays
            assert left.status_code == (409 if person == "ann" else 404), left.text
            return
        assert left.status_code == 204
        self.model.members.remove(person)
        self.model.grants = {
            key: access for key, access in self.model.grants.items() if (key[0], key[2]) != (person, "team")
        }
        self.model.forget()

    async def read(self, person: str, owner: str, kind: str) -> None:
        answer = await self.clients[person].get(self.path(owner, kind, person))
        assert answer.status_code == (404 if self.model.access(person, owner, kind) is None else 200), answer.text

    async def write(self, person: str, owner: str, kind: str) -> None:
        self.version += 1
        content = SKILL.format(name=f"fruit-{owner}", owner=owner, version=self.version)
        body = {"soul": f"Version {self.version}."} if kind == "agent" else {"content": content}
        answer = await self.clients[person].put(self.path(owner, kind, person), json=body)
        expected = {None: 404, "read": 403, "write": 200}[self.model.access(person, owner, kind)]
        assert answer.status_code == expected, answer.text
        stored = (await self.clients[owner].get(self.path(owner, kind, owner))).text
        assert (f"Version {self.version}." in stored) == (expected == 200)

    async def use(self, person: str, owner: str, kind: str) -> None:
        config = {"configurable": {"agent_name": f"scribe@{self.ids[owner]}"}}
        body = {"input": {"messages": [{"type": "human", "content": "Hi"}]}, "config": config}
        answer = await self.clients[person].post(f"/api/threads/of-{person}/runs/wait", json=body)
        assert answer.status_code == (404 if self.model.access(person, owner, "agent") is None else 200), answer.text

    async def accept(self, person: str, owner: str, kind: str) -> None:
        path = f"/api/skills/fruit-{owner}@{self.ids[owner]}"
        answer = await self.clients[person].put(path, json={"enabled": kind == "skill"})
        if self.model.access(person, owner, "skill") is None:
            assert answer.status_code == 404, answer.text
            return
        assert answer.status_code == 200, answer.text
        change = self.model.accepted.add if kind == "skill" else self.model.accepted.discard
        change((person, owner))

    async def check_list(self, person: str) -> None:
        """Check that a person finds what the model says, in the list of what is shared and among agents and skills."""
        http, expected = self.clients[person], self.model.expect_shared(person)
        listed = (await http.get("/api/shared-with-me")).json()
        found = {(each["shared_by"], "agent", each["access"], False) for each in listed["agents"]}
        found |= {(each["shared_by"], "skill", each["access"], each["is_accepted"]) for each in listed["skills"]}
        assert found == expected
        agents = [each for each in (await http.get("/api/agents")).json()["agents"] if each["shared_by"]]
        skills = [each for each in (await http.get("/api/skills")).json()["skills"] if each["shared_by"]]
        seen = {(each["shared_by"], "agent", each["access"], False) for each in agents}
        assert seen | {(each["shared_by"], "skill", each["access"], each["enabled"]) for each in skills} == expected


@settings(
    max_examples=8, deadline=None, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(steps=st.lists(STEP, min_size=20, max_size=40))
def test_people_may_what_was_granted_and_nothing_else_after_any_operations(steps: Sequence[Step]) -> None:
    asyncio.run(check_steps(steps))


async def check_steps(steps: Sequence[Step]) -> None:
    with TemporaryDirectory() as home:
        async with open_people(Path(home), *["Hello."] * 100) as people:
            clients = dict(zip(NAMES, (people.ann, people.bob, people.eve), strict=True))
            ids = {name: await user_id(http) for name, http in clients.items()}
            team = (await people.ann.post("/api/teams", json={"name": "All"})).json()["team_id"]
            for name, http in clients.items():
                content = SKILL.format(name=f"fruit-{name}", owner=name, version=0)
                assert (await http.post("/api/agents", json={"name": "scribe", "soul": name})).status_code == 201
                assert (await http.post("/api/skills/custom", json={"content": content})).status_code == 201
            server = Server(clients, ids, team)
            for step in steps:
                await server.take(step)
            for name in NAMES:
                await server.check_list(name)
