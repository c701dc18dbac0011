"""Agents and skills that people share: who may use, change and delete them, and how a share ends."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from deerflow.testing import calling
from tests.gateway.account_server import AUTH, USER
from tests.gateway.shared_people import EVE, People, named, open_people, user_id

SKILL = "---\nname: {name}\ndescription: About {word}.\n---\n# How\n\nSay {word}.\n"


def human(text: str, **more: Any) -> dict[str, Any]:
    return {"input": {"messages": [{"type": "human", "content": text}]}, **more}


async def share(http: httpx.AsyncClient, thing: str, to: str = USER, access: str = "read") -> str:
    body = {"email": to} if "@" in to else {"team_id": to}
    made = await http.post(f"/api/{thing}/grants", json={**body, "access": access})
    assert made.status_code == 200, made.text
    return str(made.json()["grant_id"])


async def create_agent(http: httpx.AsyncClient, soul: str = "You are brief.", name: str = "scribe") -> str:
    made = await http.post("/api/agents", json={"name": name, "soul": soul})
    assert made.status_code == 201, made.text
    return f"{name}@{await user_id(http)}"


async def create_skill(http: httpx.AsyncClient, word: str = "lemon", name: str = "fruit") -> str:
    made = await http.post("/api/skills/custom", json={"content": SKILL.format(name=name, word=word)})
    assert made.status_code == 201, made.text
    return f"{name}@{await user_id(http)}"


async def list_agents(http: httpx.AsyncClient) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in (await http.get("/api/agents")).json()["agents"]}


async def find_skill(http: httpx.AsyncClient, name: str = "fruit") -> dict[str, Any] | None:
    skills = (await http.get("/api/skills")).json()["skills"]
    return next((each for each in skills if each["name"] == name), None)


async def run(http: httpx.AsyncClient, agent: str | None, thread: str = "own") -> httpx.Response:
    config = {} if agent is None else {"config": {"configurable": {"agent_name": agent}}}
    return await http.post(f"/api/threads/{thread}/runs/wait", json=human("Hi", **config))


async def test_a_shared_agent_is_listed_with_its_owner_and_answers_in_own_threads(tmp_path: Path) -> None:
    async with open_people(tmp_path) as people:
        address = await create_agent(people.ann, "You only speak in rhymes.")
        assert await list_agents(people.bob) == {}
        await share(people.ann, "agents/scribe")
        listed = (await list_agents(people.bob))[address]
        assert (listed["shared_by"], listed["access"], listed["has_editors"]) == ("ann@example.com", "read", False)
        assert (await run(people.bob, address)).status_code == 200
        prompt = people.model.requests[-1].messages[0].text
        assert "rhymes" in prompt and "@" + address.partition("@")[2] not in prompt
        assert named(await people.eve.get(f"/api/agents/{address}")) == (404, "NotFound")
        assert named(await run(people.eve, address, "eve")) == (404, "NotFound")


async def test_a_run_with_a_shared_agent_acts_for_the_person(tmp_path: Path) -> None:
    async with open_people(tmp_path) as people:
        address = await create_agent(people.ann)
        await share(people.ann, "agents/scribe")
        assert (await people.bob.put("/api/user-profile", json={"content": "I am Bob."})).status_code == 200
        assert (await people.ann.put("/api/user-profile", json={"content": "I am Ann."})).status_code == 200
        fact = {"content": "Ann likes lemons"}
        assert (await people.ann.post("/api/memory/facts", params={"agent": "scribe"}, json=fact)).status_code == 200
        fact = {"content": "Bob likes plums"}
        assert (await people.bob.post("/api/memory/facts", params={"agent": address}, json=fact)).status_code == 200
        assert (await run(people.bob, address)).status_code == 200
        seen = "\n".join(message.text for message in people.model.requests[-1].messages)
        assert "I am Bob." in seen and "Bob likes plums" in seen
        assert "I am Ann." not in seen and "lemons" not in seen
        usage = [(await http.get("/api/console/stats")).json()["totals"] for http in (people.ann, people.bob)]
        assert usage[0]["total_tokens"] == 0 < usage[1]["total_tokens"]


@pytest.mark.parametrize("ending", ["revoke", "delete", "leave", "delete team", "delete owner"])
async def test_a_share_ends_with_a_clear_error_and_threads_stay_readable(tmp_path: Path, ending: str) -> None:
    async with open_people(tmp_path) as people:
        dora = await people.server.join(people.ann, "dora@example.com")
        agent, skill = await create_agent(dora), await create_skill(dora)
        team = (await dora.post("/api/teams", json={"name": "Research"})).json()["team_id"]
        await dora.post(f"/api/teams/{team}/members", json={"email": USER})
        to = team if "team" in ending or ending == "leave" else USER
        grant, other = await share(dora, "agents/scribe", to), await share(dora, "skills/custom/fruit", to)
        assert (await people.bob.put("/api/skills/fruit", json={"enabled": True})).status_code == 200
        assert (await run(people.bob, agent)).status_code == 200
        await end_share(people, dora, ending, team, (grant, other))
        assert await list_agents(people.bob) == {} and await find_skill(people.bob) is None
        shared = (await people.bob.get("/api/shared-with-me")).json()
        assert shared == {"threads": [], "agents": [], "skills": []}
        refused = await run(people.bob, agent)
        assert named(refused) == (404, "NotFound") and "scribe" in refused.json()["detail"]
        for path in (f"/api/agents/{agent}", f"/api/skills/{skill}", f"/api/skills/custom/{skill}"):
            assert named(await people.bob.get(path)) == (404, "NotFound")
        assert "Hello." in (await people.bob.get("/api/threads/own/messages")).text


async def end_share(people: People, owner: httpx.AsyncClient, ending: str, team: str, grants: tuple[str, str]) -> None:
    """End the grants of an agent and of a skill in one of several ways."""
    bob, owner_id = await user_id(people.bob), await user_id(owner)
    requests = {
        "revoke": [
            (owner, f"/api/agents/scribe/grants/{grants[0]}"),
            (owner, f"/api/skills/custom/fruit/grants/{grants[1]}"),
        ],
        "delete": [(owner, "/api/agents/scribe"), (owner, "/api/skills/custom/fruit")],
        "leave": [(people.bob, f"/api/teams/{team}/members/{bob}")],
        "delete team": [(owner, f"/api/teams/{team}")],
        "delete owner": [(people.ann, f"{AUTH}/users/{owner_id}")],
    }
    for http, path in requests[ending]:
        ended = await http.delete(path)
        assert ended.status_code in (202, 204), ended.text


async def test_an_agent_or_skill_with_the_name_of_a_deleted_one_is_private(tmp_path: Path) -> None:
    async with open_people(tmp_path) as people:
        for again in (False, True):
            await create_agent(people.ann)
            await create_skill(people.ann)
            if again:
                break
            await share(people.ann, "agents/scribe")
            await share(people.ann, "skills/custom/fruit")
            assert (await people.bob.put("/api/skills/fruit", json={"enabled": True})).status_code == 200
            await people.ann.delete("/api/agents/scribe")
            await people.ann.delete("/api/skills/custom/fruit")
        assert await list_agents(people.bob) == {} and await find_skill(people.bob) is None
        await share(people.ann, "skills/custom/fruit")
        found = await find_skill(people.bob)
        assert found is not None and not found["enabled"]


async def test_agents_of_the_same_name_do_not_hide_each_other(tmp_path: Path) -> None:
    async with open_people(tmp_path) as people:
        anns, eves = await create_agent(people.ann, "Soul of Ann."), await create_agent(people.eve, "Soul of Eve.")
        await create_agent(people.bob, "Soul of Bob.")
        await share(people.ann, "agents/scribe")
        await share(people.eve, "agents/scribe")
        assert sorted(await list_agents(people.bob)) == sorted(["scribe", anns, eves])
        own = f"scribe@{await user_id(people.bob)}"
        for name, soul in (("scribe", "of Bob"), (anns, "of Ann"), (eves, "of Eve"), (own, "of Bob")):
            assert (await run(people.bob, name)).status_code == 200
            assert f"Soul {soul}" in people.model.requests[-1].messages[0].text


async def test_a_skill_never_hides_one_of_the_person_and_says_so(tmp_path: Path) -> None:
    async with open_people(tmp_path) as people:
        await create_skill(people.ann)
        await create_skill(people.eve, "plum")
        await share(people.ann, "skills/custom/fruit")
        await share(people.eve, "skills/custom/fruit")
        first = await find_skill(people.bob)
        assert first is not None and first["shared_by"] in ("ann@example.com", EVE)
        (hidden,) = (await people.bob.get("/api/skills")).json()["refused"]
        assert hidden["category"] == "shared" and first["shared_by"] in hidden["reason"]
        await create_skill(people.bob, "fig")
        own = await find_skill(people.bob)
        assert own is not None and own["shared_by"] is None and own["enabled"]
        refused = (await people.bob.get("/api/skills")).json()["refused"]
        assert len(refused) == 2 and all("of yours" in each["reason"] for each in refused)


async def test_a_shared_skill_is_used_after_the_person_has_switched_it_on(tmp_path: Path) -> None:
    read = calling("bash", description="Read", command="cd /mnt/skills/shared/*/fruit; cat SKILL.md; touch x")
    replies = ["Hello.", read, "Done.", "Hello."]
    async with open_people(tmp_path, *replies) as people:
        address = await create_skill(people.ann)
        await share(people.ann, "skills/custom/fruit")
        assert (await run(people.bob, None)).status_code == 200
        assert "lemon" not in people.model.requests[-1].messages[0].text
        switched = await people.bob.put("/api/skills/fruit", json={"enabled": True})
        assert switched.status_code == 200 and switched.json()["address"] == address
        done = await run(people.bob, None)
        assert "/mnt/skills/shared/" in people.model.requests[1].messages[0].text
        assert "Say lemon." in done.text and "Read-only file system" in done.text, done.text
        assert (await people.bob.put(f"/api/skills/{address}", json={"enabled": False})).status_code == 200
        assert (await run(people.bob, None)).status_code == 200
        assert "lemon" not in people.model.requests[-1].messages[0].text


@pytest.mark.parametrize("access", ["read", "write"])
async def test_what_a_person_may_do_with_shared_agents_and_skills(tmp_path: Path, access: str) -> None:
    async with open_people(tmp_path) as people:
        agent, skill = await create_agent(people.ann), await create_skill(people.ann)
        await share(people.ann, "agents/scribe", access=access)
        await share(people.ann, "skills/custom/fruit", access=access)
        custom, content = f"/api/skills/custom/{skill}", SKILL.format(name="fruit", word="cherry")
        for method, path in (
            ("GET", f"/api/agents/{agent}"),
            ("GET", f"/api/assistants/{agent}"),
            ("GET", custom),
            ("GET", f"{custom}/files/SKILL.md"),
            ("GET", f"{custom}/history"),
        ):
            assert (await people.bob.request(method, path)).status_code == 200, path
            assert named(await people.eve.request(method, path)) == (404, "NotFound"), path
        writes: tuple[tuple[str, str, Any], ...] = (
            ("PUT", f"/api/agents/{agent}", {"soul": "You sing."}),
            ("PATCH", f"/api/assistants/{agent}", {"description": "Sings."}),
            ("PUT", custom, {"content": content}),
            ("PUT", f"{custom}/files/references/a.md", {"content": "x"}),
            ("DELETE", f"{custom}/files/references/a.md", None),
            ("POST", f"{custom}/rollback", {}),
        )
        for method, path, body in writes:
            answer = await people.bob.request(method, path, json=body)
            allowed = (403, "ReadOnlyAccess") if access == "read" else (200, None)
            assert named(answer) == allowed, (path, answer.text)
            assert named(await people.eve.request(method, path, json=body)) == (404, "NotFound"), path
        refused = (403, "ReadOnlyAccess" if access == "read" else "Forbidden")
        for method, path, body in (
            ("DELETE", f"/api/agents/{agent}", None),
            ("DELETE", f"/api/assistants/{agent}", None),
            ("DELETE", custom, None),
            ("DELETE", f"{custom}/history", None),
            ("GET", f"/api/agents/{agent}/grants", None),
            ("POST", f"/api/agents/{agent}/grants", {"email": EVE}),
            ("GET", f"{custom}/grants", None),
            ("POST", f"{custom}/grants", {"email": EVE}),
        ):
            assert named(await people.bob.request(method, path, json=body)) == refused, path
            assert named(await people.eve.request(method, path, json=body)) == (404, "NotFound"), path
        soul = (await people.ann.get("/api/agents/scribe")).json()["soul"]
        assert soul == ("You are brief." if access == "read" else "You sing.")


async def test_a_person_sees_that_others_can_change_what_is_shared_with_them(tmp_path: Path) -> None:
    async with open_people(tmp_path) as people:
        await create_skill(people.ann)
        await share(people.ann, "skills/custom/fruit")
        await share(people.ann, "skills/custom/fruit", EVE, access="write")
        (bobs,) = (await people.bob.get("/api/shared-with-me")).json()["skills"]
        (eves,) = (await people.eve.get("/api/shared-with-me")).json()["skills"]
        assert (bobs["has_editors"], bobs["access"], bobs["shared_by"]) == (True, "read", "ann@example.com")
        assert (eves["has_editors"], eves["access"]) == (False, "write")
        assert not bobs["is_accepted"]


async def test_only_own_agents_and_skills_can_be_shared(tmp_path: Path) -> None:
    async with open_people(tmp_path) as people:
        await create_agent(people.ann)
        for thing in ("agents/none", "skills/custom/none", "agents/scribe"):
            answer = await people.bob.post(f"/api/{thing}/grants", json={"email": EVE})
            assert named(answer) == (404, "NotFound"), thing
        built_in = await people.ann.post("/api/skills/custom/deep-research/grants", json={"email": EVE})
        assert named(built_in) == (409, "Conflict")
        yourself = await people.ann.post("/api/agents/scribe/grants", json={"email": "ann@example.com"})
        assert named(yourself) == (409, "Conflict")
