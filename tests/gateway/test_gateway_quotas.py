"""Quotas of people, as they and administrators see them, and the answers to those who reach them."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from deerflow.accounts.quotas import LoadMonitor, Turns
from deerflow.testing import ScriptedModel, Stall, calling
from tests.gateway.account_server import ADMIN, AUTH, USER, open_account_server

HI = {"input": {"messages": [{"type": "human", "content": "Hi"}]}}
NONE = {
    "storage_mb": None,
    "concurrent_runs": None,
    "requests_per_second": None,
    "tokens_per_day": None,
    "cost_per_day": None,
    "currency": "USD",
}
SANDBOX = {"sandbox": {"toolbox": {"enabled": False}}}


def quotas(**limits: Any) -> dict[str, Any]:
    return {"users": {"quotas": limits}}


async def find_user_id(http: httpx.AsyncClient) -> str:
    return str((await http.get(f"{AUTH}/me")).json()["id"])


async def start(http: httpx.AsyncClient, thread: str, **more: Any) -> httpx.Response:
    await http.post("/api/threads", json={"thread_id": thread, "if_exists": "do_nothing"})
    return await http.post(f"/api/threads/{thread}/runs", json={**HI, **more})


def named(answer: httpx.Response) -> tuple[int, str | None]:
    return answer.status_code, answer.json().get("error") if answer.status_code >= 400 else None


async def test_without_quotas_there_is_no_limit(tmp_path: Path) -> None:
    async with open_account_server(tmp_path, requires_login=False) as server:
        mine = (await server.program().get(f"{AUTH}/quota")).json()
        assert mine["limits"] == NONE and mine["runs"] == 0 and mine["tokens_today"] == 0


async def test_an_administrator_sets_limits_of_a_person_who_sees_what_is_left(tmp_path: Path) -> None:
    async with open_account_server(tmp_path, **quotas(tokens_per_day=5000, concurrent_runs=3)) as server:
        ann = await server.set_up()
        bob = await server.join(ann)
        path = f"{AUTH}/users/{await find_user_id(bob)}/quota"
        assert (await ann.get(path)).json()["changed"] == {}
        body = {"tokens_per_day": 900_000, "cost_per_day": "2.5", "concurrent_runs": None}
        changed = await ann.put(path, json=body)
        assert changed.status_code == 200 and (await ann.get(path)).json() == changed.json()
        limits = (await bob.get(f"{AUTH}/quota")).json()["limits"]
        assert limits == {**NONE, "tokens_per_day": 900_000, "cost_per_day": "2.5"}
        assert (await ann.get(f"{AUTH}/quota")).json()["limits"]["tokens_per_day"] == 5000
        assert (await ann.put(path, json={})).json()["effective"]["tokens_per_day"] == 5000


async def test_limits_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        for body in ({"tokens_per_day": 1}, {"storage_mb": -1}, {"unknown": 1}, {"cost_per_day": "x"}):
            assert (await ann.put(f"{AUTH}/users/local/quota", json=body)).status_code == 422, body
        assert (await ann.put(f"{AUTH}/users/nobody/quota", json={})).status_code == 404
        assert (await ann.get(f"{AUTH}/users/nobody/quota")).status_code == 404


async def test_a_flood_of_requests_is_refused_and_others_are_not(tmp_path: Path) -> None:
    async with open_account_server(tmp_path, **quotas(requests_per_second=0.01)) as server:
        ann = await server.set_up()
        bob = await server.join(ann)
        answers = [await ann.get("/api/console/stats") for _ in range(3)]
        assert named(answers[-1]) == (429, "QuotaExceeded")
        assert 0 < int(answers[-1].headers["retry-after"]) <= 100
        assert (await bob.get("/api/console/stats")).status_code == 200


async def test_all_sessions_and_tokens_of_a_person_share_the_limit_of_requests(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        token, _ = await server.create_token(ann)
        await ann.put(f"{AUTH}/users/local/quota", json={"requests_per_second": 0.01})
        again = await server.log_in()
        found = [(await each.get(f"{AUTH}/me")).status_code for each in (server.program(token), again, ann)]
        assert found == [200, 429, 429]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_of_many_runs_at_once_no_more_than_the_quota_begin(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str
) -> None:
    settings = quotas(concurrent_runs=3)
    if kind == "postgres":
        settings["database"] = {"url": request.getfixturevalue("postgres_url")}
    model = ScriptedModel.saying(*[Stall()] * 50)
    async with open_account_server(tmp_path, model, **settings) as server:
        ann = await server.set_up()
        bob = await server.join(ann)
        answers = await asyncio.gather(*(start(ann, f"t{number}") for number in range(20)))
        assert sorted(answer.status_code for answer in answers) == [200] * 3 + [429] * 17
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert named(refused) == (429, "QuotaExceeded") and int(refused.headers["retry-after"]) > 0
        assert (await ann.get(f"{AUTH}/quota")).json()["runs"] == 3
        assert (await start(bob, "bobs")).status_code == 200
        first = next(number for number, answer in enumerate(answers) if answer.status_code == 200)
        assert (await start(ann, f"t{first}", multitask_strategy="enqueue")).status_code == 200, "the thread has one"
        model.release()


async def test_files_beyond_the_quota_are_refused_wherever_they_come_from(tmp_path: Path) -> None:
    async with open_account_server(tmp_path, **quotas(storage_mb=1), **SANDBOX) as server:
        ann = await server.set_up()
        bob = await server.join(ann)
        half = b"x" * 600_000
        for thread in ("one", "two"):
            await ann.post("/api/threads", json={"thread_id": thread})
        sent = [
            await ann.post(f"/api/threads/{thread}/uploads", files={"files": ("a.txt", half)})
            for thread in ("one", "two")
        ]
        assert [answer.status_code for answer in sent] == [200, 413]
        assert "users.quotas.storage_mb" in sent[1].text
        project = (await ann.post("/api/projects", json={"name": "p"})).json()["project_id"]
        refused = await ann.post(f"/api/projects/{project}/files", files={"files": ("b.txt", half)})
        assert refused.status_code == 413
        await bob.post("/api/threads", json={"thread_id": "bobs"})
        assert (await bob.post("/api/threads/bobs/uploads", files={"files": ("a.txt", half)})).status_code == 200
        used = (await ann.get(f"{AUTH}/quota")).json()
        assert 600_000 <= used["storage_bytes"] <= 1024 * 1024
        assert (await ann.delete("/api/threads/one")).status_code in (200, 204)
        again = await ann.post("/api/threads/two/uploads", files={"files": ("a.txt", half)})
        assert again.status_code == 200


async def test_a_person_whose_files_take_too_much_begins_no_run(tmp_path: Path) -> None:
    async with open_account_server(tmp_path, **SANDBOX) as server:
        ann = await server.set_up()
        await ann.post("/api/threads", json={"thread_id": "one"})
        await ann.post("/api/threads/one/uploads", files={"files": ("a.txt", b"x" * 2_000_000)})
        await ann.put(f"{AUTH}/users/local/quota", json={"storage_mb": 1})
        answer = await start(ann, "one")
        assert named(answer) == (429, "QuotaExceeded") and "1 MB" in answer.json()["detail"]


async def test_commands_end_when_all_files_of_the_person_take_too_much(tmp_path: Path) -> None:
    command = "head -c 3000000 /dev/zero > big; head -c 30000000 /dev/zero > bigger; sync; sleep 20; echo done"
    model = ScriptedModel.saying(calling("bash", description="fill", command=command), "Stopped.")
    async with open_account_server(tmp_path, model, **quotas(storage_mb=2), **SANDBOX) as server:
        ann = await server.set_up()
        await ann.post("/api/threads", json={"thread_id": "t"})
        ended = await ann.post("/api/threads/t/runs/wait", json=HI)
        assert "quota of 2 MB" in ended.text and "done" not in ended.text.partition("echo done")[2]


async def test_the_names_of_people_are_in_no_limit(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        bob = await server.join(await server.set_up())
        text = (await bob.get(f"{AUTH}/quota")).text
        assert ADMIN not in text and USER not in text


async def test_model_calls_of_a_person_take_turns_and_do_not_hold_up_others(tmp_path: Path) -> None:
    model = ScriptedModel.saying(Stall(), "For Bob.", "The second.")
    async with open_account_server(tmp_path, model) as server:
        server.harness.core.quotas.turns.model_calls = Turns(LoadMonitor(), limit=1)
        ann = await server.set_up()
        bob = await server.join(ann)
        assert (await start(ann, "first")).status_code == 200
        async with asyncio.timeout(20):
            await model.waiting.wait()
        second = (await start(ann, "second")).json()["run_id"]
        await bob.post("/api/threads", json={"thread_id": "bobs"})
        assert "For Bob." in (await bob.post("/api/threads/bobs/runs/wait", json=HI)).text
        assert len(model.requests) == 2, "the second run of Ann waits"
        model.release()
        assert "The second." in (await ann.get(f"/api/threads/second/runs/{second}/join")).text
