"""Threads that are shared with people: who may read, who may write, and what stays with the owner."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import httpx
import orjson
import pytest
from langchain_core.messages import BaseMessage
from sqlalchemy import select

from deerflow.gateway.examples import THREAD
from deerflow.persistence.tables import memory_pending
from deerflow.testing import Answer, ScriptedModel, Stall, calling
from tests.gateway.account_server import AUTH, USER, open_account_server
from tests.gateway.populated_server import Example, list_examples
from tests.gateway.shared_people import EVE, People, named, open_people, user_id

LIMIT_S = 1.0


def human(text: str, **more: Any) -> dict[str, Any]:
    return {"input": {"messages": [{"type": "human", "content": text}]}, **more}


def count_tokens(stats: Any) -> int:
    return int(stats["totals"]["total_tokens"])


def steer(messages: Sequence[BaseMessage]) -> str | Stall:
    return "Second." if any("Steer" in each.text for each in messages) else Stall(Answer("Working"))


async def test_a_person_reads_what_is_shared_for_reading_and_cannot_write(tmp_path: Path) -> None:
    async with open_people(tmp_path) as people:
        assert (await people.ann.post("/api/threads/t/runs/wait", json=human("Hi"))).status_code == 200
        assert (await people.bob.get("/api/threads/t")).status_code == 404
        await people.share()
        page = await people.bob.get("/api/threads/t/messages")
        assert page.status_code == 200 and "Hello." in page.text
        for method, path, body in (
            ("POST", "/api/threads/t/runs", human("Hi")),
            ("POST", "/api/threads/t/runs/stream", human("Hi")),
            ("PUT", "/api/threads/t/artifacts/mnt/user-data/outputs/a.md", {"content": "x"}),
            ("PATCH", "/api/threads/t", {"metadata": {"title": "stolen"}}),
            ("POST", "/api/threads/t/grants", {"email": EVE, "access": "read"}),
            ("POST", "/api/threads/t/shares", {}),
            ("DELETE", "/api/threads/t", None),
        ):
            answer = await people.bob.request(method, path, json=body)
            assert named(answer) == (403, "ReadOnlyAccess"), (method, path, answer.text)
        assert (await people.eve.get("/api/threads/t")).status_code == 404


async def test_a_shared_thread_is_not_listed_with_the_threads_of_the_person(tmp_path: Path) -> None:
    async with open_people(tmp_path) as people:
        await people.share(access="write")
        shared = (await people.bob.get("/api/shared-with-me")).json()
        (entry,) = shared["threads"]
        assert (entry["thread"]["thread_id"], entry["access"], entry["shared_by"]) == ("t", "write", "ann@example.com")
        assert (await people.bob.post("/api/threads/search", json={})).json() == []
        assert (await people.bob.post("/api/threads/count", json={})).json() == 0
        nothing = {"threads": [], "agents": [], "skills": []}
        assert (await people.ann.get("/api/shared-with-me")).json() == nothing
        assert (await people.eve.get("/api/shared-with-me")).json() == nothing


async def test_reading_is_not_turned_into_stopping_a_run(tmp_path: Path) -> None:
    async with open_people(tmp_path, Stall(Answer("Working"))) as people:
        run = (await people.ann.post("/api/threads/t/runs", json=human("Hi"))).json()["run_id"]
        await people.share()
        path = f"/api/threads/t/runs/{run}"
        stopped = await people.bob.get(f"{path}/stream", params={"cancel_on_disconnect": True})
        assert named(stopped) == (403, "ReadOnlyAccess")
        assert named(await people.bob.post(f"{path}/cancel")) == (403, "ReadOnlyAccess")
        assert (await people.ann.get(path)).json()["status"] == "running"


@pytest.mark.parametrize("access", ["read", "write"])
async def test_what_belongs_to_the_owner_is_refused_to_those_it_is_shared_with(tmp_path: Path, access: str) -> None:
    async with open_people(tmp_path) as people:
        grant = await people.share(access=access)
        error = "ReadOnlyAccess" if access == "read" else "Forbidden"
        for method, path, body in (
            ("DELETE", "/api/threads/t", None),
            ("PATCH", "/api/threads/t", {"metadata": {"temporary": True}}),
            ("POST", "/api/threads/t/state", {"values": {"title": "stolen"}}),
            ("POST", "/api/threads/t/copy", {}),
            ("GET", "/api/threads/t/grants", None),
            ("POST", "/api/threads/t/grants", {"email": USER, "access": "write"}),
            ("DELETE", f"/api/threads/t/grants/{grant}", None),
            ("GET", "/api/threads/t/shares", None),
            ("GET", "/api/threads/t/permissions", None),
        ):
            assert named(await people.bob.request(method, path, json=body)) == (403, error), (method, path)
        around = {**human("Hi"), "config": {"configurable": {"thread_id": "t"}}}
        for path in ("/api/runs/wait", "/api/runs", "/api/runs/stream"):
            assert named(await people.bob.post(path, json=around)) == (404, "NotFound"), path
        cancelled = await people.bob.post("/api/runs/cancel", json={"thread_id": "t", "run_ids": ["x"]})
        assert named(cancelled) == (404, "NotFound")
        several = (await people.bob.post("/api/threads/delete", json={"ids": ["t"]})).json()
        assert several["deleted"] == [] and several["failed"][0]["error"] == "NotFound"
        assert (await people.ann.get("/api/threads/t")).status_code == 200


async def test_only_the_owner_shares_and_only_with_people_and_teams_that_exist(tmp_path: Path) -> None:
    async with open_people(tmp_path) as people:
        grants = "/api/threads/t/grants"
        team = (await people.bob.post("/api/teams", json={"name": "Bobs"})).json()["team_id"]
        for http, body, expected in (
            (people.bob, {"email": USER}, (404, "NotFound")),
            (people.eve, {"email": EVE, "access": "write"}, (404, "NotFound")),
            (people.ann, {"email": "ann@example.com"}, (409, "Conflict")),
            (people.ann, {"email": "nobody@example.com"}, (404, "NotFound")),
            (people.ann, {"team_id": team}, (404, "NotFound")),
            (people.ann, {"team_id": "none"}, (404, "NotFound")),
            (people.ann, {}, (422, "InvalidRequest")),
            (people.ann, {"email": USER, "team_id": team}, (422, "InvalidRequest")),
            (people.ann, {"email": USER, "access": "admin"}, (422, "InvalidRequest")),
        ):
            assert named(await http.post(grants, json=body)) == expected, body
        assert (await people.ann.get(grants)).json() == []
        bobs = await user_id(people.bob)
        await people.ann.patch(f"{AUTH}/users/{bobs}", json={"is_active": False})
        assert named(await people.ann.post(grants, json={"email": USER})) == (404, "NotFound")


async def test_a_second_grant_changes_the_access_of_the_first(tmp_path: Path) -> None:
    async with open_people(tmp_path) as people:
        first, second = await people.share(), await people.share(access="write")
        assert first == second
        (grant,) = (await people.ann.get("/api/threads/t/grants")).json()
        assert (grant["name"], grant["access"]) == (USER, "write")
        assert (await people.bob.post("/api/threads/t/runs/wait", json=human("Hi"))).status_code == 200
        await people.share()
        assert named(await people.bob.post("/api/threads/t/runs", json=human("Hi"))) == (403, "ReadOnlyAccess")


@pytest.mark.parametrize("ending", ["revoke", "weaken", "delete the thread", "leave the team", "delete the team"])
@pytest.mark.parametrize("path", ["/api/threads/t/stream", "/api/threads/t/runs/stream"])
async def test_open_streams_end_with_the_grant(tmp_path: Path, ending: str, path: str) -> None:
    async with open_people(tmp_path, Stall(Answer("Working"))) as people:
        team = (await people.ann.post("/api/teams", json={"name": "Research"})).json()["team_id"]
        bobs = await user_id(people.bob)
        if "team" in ending:
            await people.ann.post(f"/api/teams/{team}/members", json={"email": USER})
            await people.ann.post("/api/threads/t/grants", json={"team_id": team, "access": "write"})
        else:
            grant = await people.share(access="write")
        method, body = ("POST", human("Hi")) if path.endswith("runs/stream") else ("GET", None)
        async with asyncio.timeout(10), people.bob.stream(method, path, json=body) as answer:
            assert answer.status_code == 200
            ended = {
                "revoke": ("DELETE", f"/api/threads/t/grants/{'' if 'team' in ending else grant}", None),
                "weaken": ("POST", "/api/threads/t/grants", {"email": USER, "access": "read"}),
                "delete the thread": ("DELETE", "/api/threads/t?stop_runs=true", None),
                "leave the team": ("DELETE", f"/api/teams/{team}/members/{bobs}", None),
                "delete the team": ("DELETE", f"/api/teams/{team}", None),
            }[ending]
            done = await people.ann.request(ended[0], ended[1], json=ended[2])
            assert done.is_success, done.text
            began = perf_counter()
            async for _ in answer.aiter_raw():
                pass
        assert perf_counter() - began <= LIMIT_S
        assert (await people.bob.get("/api/threads/t")).status_code == (200 if ending == "weaken" else 404)


async def test_a_run_of_another_person_is_charged_to_them_and_stays_in_the_thread(tmp_path: Path) -> None:
    async with open_people(tmp_path) as people:
        await people.share(access="write")
        done = await people.bob.post("/api/threads/t/runs/wait", json=human("Hi from Bob"))
        assert done.status_code == 200, done.text
        assert "Hi from Bob" in (await people.ann.get("/api/threads/t/messages")).text
        (run,) = (await people.ann.get("/api/threads/t/runs")).json()
        assert (await people.bob.get(f"/api/threads/t/runs/{run['run_id']}")).status_code == 200
        usage = [(await http.get("/api/console/stats")).json() for http in (people.ann, people.bob)]
        assert count_tokens(usage[0]) == 0 < count_tokens(usage[1])
        folders = people.server.harness.core.home / "users"
        assert not (folders / await user_id(people.bob) / "threads").exists()


async def test_quotas_of_runs_are_those_of_the_person_who_starts_them(tmp_path: Path) -> None:
    settings = {"users": {"quotas": {"concurrent_runs": 1}}}
    async with open_people(tmp_path, *[Stall(Answer("Working"))] * 4, **settings) as people:
        await people.share(access="write")
        await people.bob.post("/api/threads", json={"thread_id": "bobs"})
        assert (await people.bob.post("/api/threads/bobs/runs", json=human("Hi"))).status_code == 200
        assert named(await people.bob.post("/api/threads/t/runs", json=human("Hi"))) == (429, "QuotaExceeded")
        assert (await people.ann.post("/api/threads/t/runs", json=human("Hi"))).status_code == 200


async def test_a_message_of_another_person_waits_instead_of_joining_the_run_of_the_owner(tmp_path: Path) -> None:
    async with open_people(tmp_path, steer, steer) as people:
        await people.share(access="write")
        run = (await people.ann.post("/api/threads/t/runs", json=human("Hi"))).json()["run_id"]
        steering = human("Steer", multitask_strategy="steer")
        joined = (await people.bob.post("/api/threads/t/runs", json=steering)).json()
        assert joined["status"] == "pending"
        await people.ann.post(f"/api/threads/t/runs/{run}/cancel", params={"wait": True})
        async with asyncio.timeout(10):
            ended = await people.bob.get(f"/api/threads/t/runs/{joined['run_id']}/join")
        assert "Second." in ended.text


async def read_pending(people: People) -> str:
    """Return what is to be learned."""
    query = select(memory_pending)
    found = await people.server.harness.core.database.read(lambda connection: connection.execute(query).all())
    return str([row._asdict() for row in found])


async def test_memory_of_the_owner_is_neither_shown_to_nor_learned_from_others(tmp_path: Path) -> None:
    memory = {"memory": {"enabled": True, "debounce_seconds": 3600}}
    async with open_people(tmp_path, *["Hello."] * 4, **memory) as people:
        await people.share(access="write")
        await people.ann.post("/api/memory/facts", json={"content": "Keeps kingfishers."})
        await people.bob.post("/api/memory/facts", json={"content": "Keeps herons."})
        model = people.server.harness.core.agents.plan.model
        assert isinstance(model, ScriptedModel)
        assert (await people.ann.post("/api/threads/t/runs/wait", json=human("I am Ann"))).status_code == 200
        assert "kingfishers" in str(model.requests[-1])
        assert (await people.bob.post("/api/threads/t/runs/wait", json=human("I am Bob"))).status_code == 200
        asked = str(model.requests[-1])
        assert "I am Bob" in asked and "kingfishers" not in asked and "herons" not in asked
        assert "kingfishers" not in (await people.bob.get("/api/threads/t/messages")).text
        assert (await people.ann.post("/api/threads/t/runs/wait", json=human("Ann again"))).status_code == 200
        learned = await read_pending(people)
        assert "I am Ann" in learned and "Ann again" in learned and "I am Bob" not in learned


async def test_only_the_owner_allows_a_call_for_the_whole_thread(tmp_path: Path) -> None:
    use = "deerflow.community.web_fetch.tools:web_fetch_tool"
    fetch = {"name": "web_fetch", "group": "web", "use": use, "approval": "always"}
    call = calling("web_fetch", url="http://127.0.0.1:9/a")
    async with open_people(tmp_path, call, "Done.", "Done.", tools=[fetch]) as people:
        await people.share(access="write")
        first = await people.ann.post("/api/threads/t/runs/wait", json=human("Fetch https://example.org/a"))
        assert "__interrupt__" in first.json(), first.text
        for scope, status in ({"scope": "thread"}, 403), ({}, 200):
            decisions = {"command": {"resume": {"decisions": [{"type": "reject", **scope}]}}}
            answer = await people.bob.post("/api/threads/t/runs/wait", json=decisions)
            assert answer.status_code == status, answer.text


async def test_a_thread_deleted_by_its_owner_is_not_made_again_for_them(tmp_path: Path) -> None:
    async with open_people(tmp_path) as people:
        await people.share(access="write")
        assert (await people.ann.delete("/api/threads/t")).status_code == 204
        made = await people.bob.post("/api/threads/t/runs/wait", json=human("Hi"))
        assert made.status_code in (200, 409)
        if made.status_code == 200:  # a thread of Bob's own, which happens to have the same id
            assert (await people.ann.get("/api/threads/t")).status_code == 404
        assert (await people.bob.get("/api/shared-with-me")).json()["threads"] == []


async def test_deleting_the_owner_or_the_other_person_ends_the_grants(tmp_path: Path) -> None:
    async with open_people(tmp_path, Stall(Answer("Working"))) as people:
        await people.bob.post("/api/threads", json={"thread_id": "bobs"})
        body = {"email": EVE, "access": "write"}
        assert (await people.bob.post("/api/threads/bobs/grants", json=body)).status_code == 200
        await people.share(EVE, access="write")
        run = (await people.eve.post("/api/threads/t/runs", json=human("I am Eve"))).json()["run_id"]
        eves = await user_id(people.eve)
        assert (await people.ann.delete(f"{AUTH}/users/{eves}")).status_code in (202, 204)
        assert (await people.ann.get("/api/threads/t/grants")).json() == []
        assert (await people.bob.get("/api/threads/bobs/grants")).json() == []
        assert (await people.ann.get(f"/api/threads/t/runs/{run}")).json()["status"] == "interrupted"
        await people.share()
        eve = await people.server.join(people.ann, EVE)
        assert (await eve.get("/api/threads/t")).status_code == 404
        await people.bob.post("/api/threads/bobs/grants", json=body)
        assert (await people.ann.delete(f"{AUTH}/users/{await user_id(people.bob)}")).status_code in (202, 204)
        assert (await eve.get("/api/shared-with-me")).json()["threads"] == []
        assert (await people.ann.get("/api/threads/t/grants")).json() == []


async def test_grants_and_teams_are_in_the_audit_log(tmp_path: Path) -> None:
    async with open_people(tmp_path) as people:
        grant = await people.share()
        await people.ann.delete(f"/api/threads/t/grants/{grant}")
        team = (await people.ann.post("/api/teams", json={"name": "Research"})).json()["team_id"]
        await people.ann.post(f"/api/teams/{team}/members", json={"email": USER})
        await people.ann.delete(f"/api/teams/{team}/members/{await user_id(people.bob)}")
        await people.ann.delete(f"/api/teams/{team}")
        found = (await people.ann.get("/api/audit", params={"kind": "configuration"})).json()["entries"]
        actions = [(each["kind"], each["details"]["action"]) for each in reversed(found)]
        assert actions == [
            ("configuration.grant", "share"),
            ("configuration.grant", "revoke"),
            ("configuration.team", "create_team"),
            ("configuration.team", "put_member"),
            ("configuration.team", "remove_member"),
            ("configuration.team", "delete_team"),
        ]
        assert (await people.ann.get("/api/audit/verify")).json()["is_valid"]


async def test_without_accounts_nothing_can_be_shared(tmp_path: Path) -> None:
    async with open_account_server(tmp_path, requires_login=False) as server:
        http = server.program()
        await http.post("/api/threads", json={"thread_id": "t"})
        assert named(await http.post("/api/threads/t/grants", json={"email": USER})) == (409, "Conflict")
        assert named(await http.post("/api/teams", json={"name": "Research"})) == (409, "Conflict")
        assert (await http.get("/api/shared-with-me")).json() == {"threads": [], "agents": [], "skills": []}
        assert (await http.get("/api/teams")).json() == (await http.get("/api/threads/t/grants")).json() == []


TABLE = Path(__file__).with_name("thread_access.txt")
KINDS = {
    "read": "people with whom the thread is shared",
    "write": "people with whom it is shared for writing",
    "owner": "the owner alone; others who see the thread are told so",
    "hidden": "the owner alone; for others, there is no such thread",
    "admin": "administrators",
}


def read_table() -> dict[str, str]:
    return dict(line.rsplit(maxsplit=1) for line in TABLE.read_text().splitlines() if line)


def find_expected(kind: str, access: str) -> tuple[int, str] | None:
    """Return status and name of the refusal; None if the request is allowed."""
    if kind == "hidden":
        return 404, "NotFound"
    if kind == "admin":
        return 403, "Forbidden"
    if access == "write":
        return (403, "Forbidden") if kind == "owner" else None
    return None if kind == "read" else (403, "ReadOnlyAccess")


@pytest.mark.slow
async def test_every_route_of_threads_is_in_the_table(tmp_path: Path) -> None:
    async with open_people(tmp_path) as people:
        examples = list_examples(await asyncio.to_thread(people.server.app.openapi))
    names = {f"{each.method} {each.path}" for each in examples if "{thread_id}" in each.path}
    assert names == read_table().keys()
    assert set(read_table().values()) <= KINDS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("through", ["person", "team"])
@pytest.mark.parametrize("access", ["read", "write"])
async def test_every_route_of_threads_allows_what_the_table_says(tmp_path: Path, access: str, through: str) -> None:
    wrong, table = {}, read_table()
    async with open_people(tmp_path, *["Hello."] * 200) as people:
        await people.ann.post("/api/threads", json={"thread_id": THREAD})
        if through == "person":
            await people.share(access=access, thread=THREAD)
        else:
            team = (await people.ann.post("/api/teams", json={"name": "Research"})).json()["team_id"]
            await people.ann.post(f"/api/teams/{team}/members", json={"email": USER})
            await people.ann.post(f"/api/threads/{THREAD}/grants", json={"team_id": team, "access": access})
        for example in list_examples(await asyncio.to_thread(people.server.app.openapi)):
            if example.name not in table:
                continue
            status, error, text = await send(people.bob, example)
            expected = find_expected(table[example.name], access)
            is_refused = status == 403 or (status == 404 and f"no thread {THREAD!r}" in text) or status >= 500
            if expected is None and is_refused and error != "SandboxError":
                wrong[example.name] = f"{status} {text[:100]}"
            elif expected is not None and (status, error) != expected:
                wrong[example.name] = f"{status} {text[:100]} instead of {expected}"
            others, _, _ = await send(people.eve, example)
            if others != (403 if table[example.name] == "admin" else 404):
                wrong[f"eve: {example.name}"] = str(others)
        assert (await people.ann.get(f"/api/threads/{THREAD}")).status_code == 200
    assert wrong == {}


async def send(http: httpx.AsyncClient, example: Example) -> tuple[int, str | None, str]:
    """Send an example; return the status, the name of the error and the text. Streams may be endless."""
    more: dict[str, Any] = {"params": dict(example.query)}
    if example.files:
        more["files"] = [(name, ("x.md", text)) for name, texts in example.files.items() for text in texts]
    elif example.body is not None:
        more |= {"content": orjson.dumps(example.body), "headers": {"content-type": "application/json"}}
    async with http.stream(example.method, example.url, **more) as answer:
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            return answer.status_code, None, ""
        text = (await answer.aread()).decode(errors="replace")
    return answer.status_code, orjson.loads(text)["error"] if answer.status_code >= 400 else None, text
