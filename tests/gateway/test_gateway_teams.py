"""Teams over HTTP: who creates, sees and changes them, and what ends with a membership."""

import asyncio
from pathlib import Path

import httpx
import pytest

from tests.gateway.account_server import AUTH, USER, open_account_server
from tests.gateway.shared_people import EVE, named, open_people, user_id


async def create_team(http: httpx.AsyncClient, name: str = "Research") -> str:
    made = await http.post("/api/teams", json={"name": name})
    assert made.status_code == 201, made.text
    return str(made.json()["team_id"])


async def test_a_person_creates_a_team_and_owns_it(tmp_path: Path) -> None:
    async with open_people(tmp_path) as people:
        team = await create_team(people.bob, "  Research  and   more ")
        (listed,) = (await people.bob.get("/api/teams")).json()
        assert (listed["team_id"], listed["name"], listed["role"], listed["members"]) == (
            team,
            "Research and more",
            "owner",
            1,
        )
        assert (await people.eve.get("/api/teams")).json() == []
        assert (await people.ann.get("/api/teams")).json() == []
        (seen,) = (await people.ann.get("/api/teams", params={"every": True})).json()
        assert seen["role"] is None
        assert (await people.eve.get("/api/teams", params={"every": True})).json() == []


async def test_only_administrators_create_teams_if_that_is_configured(tmp_path: Path) -> None:
    async with open_people(tmp_path, users={"team_creation": "admins"}) as people:
        assert named(await people.bob.post("/api/teams", json={"name": "Research"})) == (403, "Forbidden")
        await create_team(people.ann)


@pytest.mark.parametrize("name", ["", "   ", "x" * 101, "a\u0007b"])
async def test_names_that_cannot_be_shown_are_refused(tmp_path: Path, name: str) -> None:
    async with open_people(tmp_path) as people:
        assert named(await people.bob.post("/api/teams", json={"name": name})) == (422, "InvalidRequest")


async def test_a_team_is_hidden_from_others_and_members_cannot_change_it(tmp_path: Path) -> None:
    async with open_people(tmp_path) as people:
        team = await create_team(people.bob)
        paths = (
            ("GET", f"/api/teams/{team}", None),
            ("GET", f"/api/teams/{team}/members", None),
            ("PATCH", f"/api/teams/{team}", {"name": "Stolen"}),
            ("POST", f"/api/teams/{team}/members", {"email": EVE, "role": "owner"}),
            ("DELETE", f"/api/teams/{team}/members/{await user_id(people.bob)}", None),
            ("DELETE", f"/api/teams/{team}", None),
        )
        for method, path, body in paths:
            assert named(await people.eve.request(method, path, json=body)) == (404, "NotFound"), path
        await people.bob.post(f"/api/teams/{team}/members", json={"email": EVE})
        for method, path, body in paths:
            expected = (200, None) if method == "GET" else (403, "Forbidden")
            assert named(await people.eve.request(method, path, json=body)) == expected, path
        assert (await people.ann.patch(f"/api/teams/{team}", json={"name": "Renamed"})).json()["name"] == "Renamed"


async def test_a_team_always_has_an_owner(tmp_path: Path) -> None:
    async with open_people(tmp_path) as people:
        team = await create_team(people.bob)
        members, bobs = f"/api/teams/{team}/members", await user_id(people.bob)
        assert named(await people.bob.delete(f"{members}/{bobs}")) == (409, "Conflict")
        demoted = await people.bob.post(members, json={"email": USER, "role": "member"})
        assert named(demoted) == (409, "Conflict")
        await people.bob.post(members, json={"email": EVE, "role": "owner"})
        eves = await user_id(people.eve)
        ended = await asyncio.gather(people.bob.delete(f"{members}/{bobs}"), people.eve.delete(f"{members}/{eves}"))
        assert sorted(each.status_code for each in ended) == [204, 409]


async def test_the_longest_member_owns_a_team_whose_owner_is_deleted(tmp_path: Path) -> None:
    async with open_people(tmp_path) as people:
        team, alone = await create_team(people.bob), await create_team(people.bob, "Alone")
        await people.bob.post(f"/api/teams/{team}/members", json={"email": EVE})
        assert (await people.ann.delete(f"{AUTH}/users/{await user_id(people.bob)}")).status_code in (202, 204)
        (left,) = (await people.ann.get("/api/teams", params={"every": True})).json()
        assert left["team_id"] == team != alone
        assert (await people.eve.get(f"/api/teams/{team}")).json()["role"] == "owner"


async def test_a_person_who_leaves_sees_nothing_of_the_team_and_shares_nothing_with_it(tmp_path: Path) -> None:
    async with open_people(tmp_path) as people:
        team = await create_team(people.ann)
        await people.ann.post(f"/api/teams/{team}/members", json={"email": USER})
        await people.bob.post("/api/threads", json={"thread_id": "bobs"})
        await people.bob.post("/api/threads/bobs/grants", json={"team_id": team})
        await people.ann.post("/api/threads/t/grants", json={"team_id": team})
        assert (await people.bob.get("/api/threads/t")).status_code == 200
        assert (await people.ann.get("/api/threads/bobs")).status_code == 200
        left = await people.bob.delete(f"/api/teams/{team}/members/{await user_id(people.bob)}")
        assert left.status_code == 204
        assert (await people.bob.get("/api/threads/t")).status_code == 404
        assert (await people.ann.get("/api/threads/bobs")).status_code == 404
        assert (await people.bob.get("/api/threads/bobs/grants")).json() == []


async def test_the_strongest_of_several_grants_counts(tmp_path: Path) -> None:
    async with open_people(tmp_path) as people:
        team = await create_team(people.ann)
        await people.ann.post(f"/api/teams/{team}/members", json={"email": USER})
        await people.share()
        await people.ann.post("/api/threads/t/grants", json={"team_id": team, "access": "write"})
        (entry,) = (await people.bob.get("/api/shared-with-me")).json()["threads"]
        assert entry["access"] == "write"
        put = await people.bob.put("/api/threads/t/artifacts/mnt/user-data/outputs/a.md", json={"content": "x"})
        assert put.status_code == 200
        assert len((await people.ann.get("/api/threads/t/grants")).json()) == 2


async def test_only_people_with_an_account_become_members(tmp_path: Path) -> None:
    async with open_people(tmp_path) as people:
        team = await create_team(people.bob)
        unknown = await people.bob.post(f"/api/teams/{team}/members", json={"email": "nobody@example.com"})
        assert named(unknown) == (404, "NotFound")
        # Somebody who may not change the team learns nothing about addresses from it.
        asked = [
            await people.eve.post(f"/api/teams/{team}/members", json={"email": email})
            for email in (USER, "nobody@example.com")
        ]
        assert asked[0].text == asked[1].text


async def test_tokens_that_only_read_cannot_share(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        reader = server.program((await server.create_token(ann, "read"))[0])
        assert (await reader.post("/api/teams", json={"name": "Research"})).status_code == 403
        assert (await reader.get("/api/teams")).status_code == 200
