"""Tenancy: people who use a server together never meet, whatever they do and in whatever order."""

import asyncio
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage

from deerflow.testing import Answer, ScriptedModel, calling
from tests.gateway.account_server import AUTH, AccountServer, open_account_server
from tests.gateway.populated_server import PopulatedServer

pytestmark = pytest.mark.slow

RUNS = 20
OUTPUT = "/mnt/user-data/outputs"
OPAQUE_ID = re.compile(r"[0-9a-f]{32}")
CANARY = re.compile(r"canary[a-z]+\d+x[0-9a-f]{8}")
SKILL = "---\nname: {name}\ndescription: About {canary}.\n---\n# How\n\nThink of {canary}.\n"
SEARCHES = ("/api/threads/search", "/api/assistants/search", "/api/store/items/search")
ENDLESS, LINKS = "stream", "/api/v1/auth/"


def human(text: str) -> dict[str, Any]:
    return {"input": {"messages": [{"type": "human", "content": text}]}}


@dataclass
class Person:
    """Somebody with a word that is in everything they write, and the ids of what they have."""

    name: str
    canary: str
    http: httpx.Client
    things: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, id_: str) -> None:
        self.things.setdefault(kind, []).append(id_)

    def pick(self, kind: str, number: int) -> str | None:
        found = self.things.get(kind, [])
        return found[number % len(found)] if found else None


# What a person may do. Each operation gets a number, with which it chooses among the things that there are.


def create_thread(who: Person, number: int) -> None:
    thread = f"t-{secrets.token_hex(6)}"
    made = who.http.post("/api/threads", json={"thread_id": thread, "metadata": {"topic": who.canary}})
    assert made.status_code == 200, made.text
    who.add("threads", thread)


def run(who: Person, number: int) -> None:
    if thread := who.pick("threads", number):
        done = who.http.post(f"/api/threads/{thread}/runs/wait", json=human(f"Tell me about {who.canary}"))
        assert done.status_code == 200 and who.canary in done.text, done.text
        who.add("runs", f"{thread}/runs/{who.http.get(f'/api/threads/{thread}/runs').json()[0]['run_id']}")


def upload(who: Person, number: int) -> None:
    if thread := who.pick("threads", number):
        files = {"files": (f"{who.canary}.txt", who.canary.encode())}
        assert who.http.post(f"/api/threads/{thread}/uploads", files=files).status_code == 200


def branch(who: Person, number: int) -> None:
    if thread := who.pick("threads", number):
        copied = who.http.post(f"/api/threads/{thread}/copy", json={})
        assert copied.status_code == 200, copied.text
        who.add("threads", copied.json()["thread_id"])


def delete_thread(who: Person, number: int) -> None:
    if thread := who.pick("threads", number):
        assert who.http.delete(f"/api/threads/{thread}").status_code in (200, 204)
        who.things["threads"].remove(thread)
        who.things["runs"] = [each for each in who.things.get("runs", []) if not each.startswith(f"{thread}/")]


def create_agent(who: Person, number: int) -> None:
    name = f"a{secrets.token_hex(4)}"
    body = {"name": name, "description": f"Knows {who.canary}.", "soul": who.canary}
    assert who.http.post("/api/agents", json=body).status_code in (200, 201)
    who.add("agents", name)


def create_skill(who: Person, number: int) -> None:
    name = f"s{secrets.token_hex(4)}"
    made = who.http.post("/api/skills/custom", json={"content": SKILL.format(name=name, canary=who.canary)})
    assert made.status_code in (200, 201), made.text
    who.add("skills", name)


def add_fact(who: Person, number: int) -> None:
    made = who.http.post("/api/memory/facts", json={"content": f"Likes {who.canary} no. {number}"})
    assert made.status_code in (200, 201, 409), made.text
    facts = who.http.get("/api/memory").json()["facts"]
    who.things["facts"] = [each["id"] for each in facts]


def create_project(who: Person, number: int) -> None:
    made = who.http.post("/api/projects", json={"name": who.canary, "instructions": f"Think of {who.canary}."})
    assert made.status_code in (200, 201), made.text
    who.add("projects", made.json()["project_id"])


def store_item(who: Person, number: int) -> None:
    body = {"namespace": ["notes"], "key": f"k{number}", "value": {"text": who.canary}}
    assert who.http.put("/api/store/items", json=body).status_code in (200, 204)


def write_profile(who: Person, number: int) -> None:
    assert who.http.put("/api/user-profile", json={"content": f"I am {who.canary}."}).status_code == 200


OPERATIONS: Sequence[Callable[[Person, int], None]] = (
    create_thread, run, run, upload, branch, delete_thread, create_agent, create_skill, add_fact, create_project,
    store_item, write_profile,
)  # fmt: skip
STEPS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(OPERATIONS), st.integers(0, 20)), min_size=6, max_size=16)
FOREIGN = {
    "threads": (
        ("GET", "/api/threads/{}", None),
        ("GET", "/api/threads/{}/state", None),
        ("GET", "/api/threads/{}/messages", None),
        ("POST", "/api/threads/{}/history", {}),
        ("GET", f"/api/threads/{{}}/artifacts{OUTPUT}/x", None),
        ("GET", "/api/threads/{}/uploads/list", None),
        ("GET", "/api/threads/{}/token-usage", None),
        ("GET", "/api/threads/{}/export", None),
        ("GET", "/api/threads/{}/files", None),
        ("PATCH", "/api/threads/{}", {"metadata": {"topic": "stolen"}}),
        ("POST", "/api/threads/{}/state", {"values": {"title": "stolen"}}),
        ("POST", "/api/threads/{}/copy", {}),
        ("POST", "/api/threads/{}/runs", human("Hi")),
        ("POST", "/api/threads/{}/shares", {}),
        ("DELETE", "/api/threads/{}", None),
    ),
    "runs": (
        ("GET", "/api/threads/{}", None),
        ("GET", "/api/threads/{}/events", None),
        ("GET", "/api/threads/{}/join", None),
        ("GET", "/api/threads/{}/stream", None),
        ("POST", "/api/threads/{}/cancel", None),
        ("DELETE", "/api/threads/{}", None),
    ),
    "agents": (("GET", "/api/agents/{}", None), ("DELETE", "/api/agents/{}", None)),
    "skills": (("GET", "/api/skills/custom/{}", None), ("DELETE", "/api/skills/custom/{}", None)),
    "facts": (("GET", "/api/memory/facts/{}/why", None), ("DELETE", "/api/memory/facts/{}", None)),
    "projects": (
        ("GET", "/api/projects/{}", None),
        ("GET", "/api/projects/{}/files", None),
        ("POST", "/api/projects/{}/search", {"query": "canary"}),
        ("DELETE", "/api/projects/{}", None),
    ),
}
"""Requests for things of others, by kind."""


def list_readable(document: dict[str, Any]) -> Iterator[str]:
    """Yield the paths that list or return something without naming it."""
    for path, operations in document["paths"].items():
        required = [each for each in operations.get("get", {}).get("parameters", ()) if each["required"]]
        if "get" in operations and not required and ENDLESS not in path and not path.startswith(LINKS):
            yield path


def read_everything(who: Person, document: dict[str, Any]) -> str:
    """Return all that a person can list or find."""
    found = [who.http.get(path).text for path in list_readable(document)]
    found += [who.http.post(path, json={}).text for path in SEARCHES]
    found += [who.http.get(path, params={"q": "canary", "query": "canary"}).text for path in SEARCH_WORDS]
    return "\n".join(found)


SEARCH_WORDS = ("/api/search", "/api/memory/search")


@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(steps=STEPS)
def test_nothing_of_one_person_is_visible_to_another_after_any_operations(
    server: PopulatedServer, steps: list[tuple[int, Callable[[Person, int], None], int]]
) -> None:
    mark = secrets.token_hex(4)
    people = [
        Person(f"{name}{mark}", f"canary{name}1x{mark}", server.client(f"{name}{mark}"))
        for name in ("ann", "bob", "eve")
    ]
    try:
        for who in people:
            create_thread(who, 0)
        for number, operation, choice in steps:
            operation(people[number], choice)
            meddle(people[(number + 1) % 3], people[number], choice)
        for who in people:
            store_item(who, 99)
            seen = set(CANARY.findall(read_everything(who, server.document)))
            assert seen == {who.canary}, seen
        for who, owner in [(one, other) for one in people for other in people if one is not other]:
            check_foreign_ids(who, owner)
    finally:
        for who in people:
            who.http.close()


def meddle(stranger: Person, owner: Person, number: int) -> None:
    """Try to change or read something of another person by its id."""
    kind = list(FOREIGN)[number % len(FOREIGN)]
    if (id_ := owner.pick(kind, number)) is not None:
        method, path, body = FOREIGN[kind][number % len(FOREIGN[kind])]
        check_not_found(stranger, owner, method, path.format(id_), body)


def check_foreign_ids(stranger: Person, owner: Person) -> None:
    for kind, requests in FOREIGN.items():
        for id_ in owner.things.get(kind, [])[:1]:
            for method, path, body in requests:
                check_not_found(stranger, owner, method, path.format(id_), body)
                if method == "GET" and "/artifacts" not in path:
                    assert owner.http.get(path.format(id_)).status_code == 200, f"the owner finds {path}"


def check_not_found(stranger: Person, owner: Person, method: str, path: str, body: Any) -> None:
    answer = stranger.http.request(method, path, **({"json": body} if body is not None else {}))
    assert answer.status_code == 404 and owner.canary not in answer.text, (method, path, answer.status_code)


# Many runs of two people at the same time


def answer_for_person(messages: Sequence[BaseMessage]) -> Answer:
    """Write what the person said into a file with a command, read it, and repeat everything that is known."""
    said = " ".join(message.text for message in messages)
    results = [message.text for message in messages if message.type == "tool"]
    asked = next(message.text for message in reversed(messages) if message.type == "human")
    if not results:
        command = f"echo {CANARY.findall(asked)[-1]} >> {OUTPUT}/log.txt; cat {OUTPUT}/* /tmp/* 2>/dev/null"
        return calling("bash", description="note", command=f"{command}; ls -R /mnt; echo done")
    return Answer((f"I know {' '.join(sorted(set(CANARY.findall(said))))}.",))


async def one_run(http: httpx.AsyncClient, canary: str, number: int) -> str:
    """Run in a thread of its own and return all that was streamed."""
    thread = f"{canary.replace('canary', 't')}-{number}"
    body = {**human(f"Note {canary}."), "stream_mode": ["values", "messages-tuple", "custom"]}
    made = await http.post("/api/threads", json={"thread_id": thread, "metadata": {"topic": canary}})
    assert made.status_code == 200
    answer = await http.post(f"/api/threads/{thread}/runs/stream", json=body)
    assert answer.status_code == 200 and "event: error" not in answer.text, answer.text[-500:]
    return answer.text


async def seed(http: httpx.AsyncClient, canary: str) -> None:
    """Create an agent, a skill, a fact, a project and a profile with the word of a person."""
    name = f"n{secrets.token_hex(4)}"
    for path, body in (
        ("/api/agents", {"name": name, "description": f"Knows {canary}.", "soul": canary}),
        ("/api/skills/custom", {"content": SKILL.format(name=name, canary=canary)}),
        ("/api/memory/facts", {"content": f"Likes {canary}", "confidence": 1.0}),
        ("/api/projects", {"name": canary, "instructions": canary}),
    ):
        answer = await http.post(path, json=body)
        assert answer.status_code in (200, 201), answer.text
    assert (await http.put("/api/user-profile", json={"content": f"I am {canary}."})).status_code == 200


async def read_all(server: AccountServer, http: httpx.AsyncClient) -> set[str]:
    """Return the words of all people that a person can read anywhere."""
    document = await asyncio.to_thread(server.app.openapi)
    texts = [(await http.get(path)).text for path in list_readable(document)]
    texts += [(await http.post(path, json={"limit": 100})).text for path in SEARCHES]
    texts += [(await http.get(path, params={"q": "canary", "query": "canary"})).text for path in SEARCH_WORDS]
    for thread in (await http.post("/api/threads/search", json={"limit": 100})).json():
        path = f"/api/threads/{thread['thread_id']}"
        texts += [(await http.get(f"{path}{part}")).text for part in ("/state", "/runs", f"/artifacts{OUTPUT}/log.txt")]
    return set(CANARY.findall("\n".join(texts)))


async def test_twenty_runs_each_of_two_people_never_meet_also_after_a_restart(tmp_path: Path) -> None:
    mark = secrets.token_hex(4)
    canaries = [f"canaryann1x{mark}", f"canarybob2x{mark}"]
    settings_: dict[str, Any] = {"sandbox": {"toolbox": {"enabled": False}}}
    model = ScriptedModel.saying(*[answer_for_person] * 1000)
    async with open_account_server(tmp_path, model, **settings_) as server:
        ann = await server.set_up()
        bob = await server.join(ann)
        bobs_id = (await bob.get(f"{AUTH}/me")).json()["id"]
        for http, canary in zip((ann, bob), canaries, strict=True):
            await seed(http, canary)
        streams = await asyncio.gather(
            *(one_run(http, canary, n) for n in range(RUNS) for http, canary in zip((ann, bob), canaries, strict=True))
        )
        for number, text in enumerate(streams):
            assert set(CANARY.findall(text)) == {canaries[number % 2]}
        for http, canary in zip((ann, bob), canaries, strict=True):
            assert await read_all(server, http) == {canary}
    async with open_account_server(tmp_path, model, **settings_) as server:
        ann, bob = await server.log_in(), await server.log_in("bob@example.com")
        for http, canary in zip((ann, bob), canaries, strict=True):
            assert await read_all(server, http) == {canary}
            assert set(CANARY.findall(await one_run(http, canary, RUNS))) == {canary}
    check_folders(tmp_path, bobs_id, canaries)


def check_folders(home: Path, bobs_id: str, canaries: Sequence[str]) -> None:
    """Check that the folders of people are opaque ids and contain nothing of others."""
    users = home / ".deer-flow" / "users"
    assert {each.name for each in users.iterdir()} == {"local", bobs_id}
    assert OPAQUE_ID.fullmatch(bobs_id)
    for owner, foreign in (("local", canaries[1]), (bobs_id, canaries[0])):
        files = [each for each in (users / owner).rglob("*") if each.is_file()]
        assert not [each for each in files if foreign.encode() in each.read_bytes() or foreign in str(each)]
