"""Webhooks: signed requests start one run each, and nothing else does."""

import asyncio
import re
import shlex
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from deerflow.channels.hooks import DELIVERY, MAX_BODY_BYTES, SIGNATURE, TIMESTAMP, HookReceiver, sign
from deerflow.domain.identity import Principal
from deerflow.domain.taint import WEBHOOK
from deerflow.harness.run_context import find_sources
from deerflow.testing import ScriptedModel
from tests.canary import files_with
from tests.channels.support import OFF
from tests.gateway.account_server import AccountServer, open_account_server

LIMIT_S = 60
PROMPT = "Look at {{issue.title}} ({{missing}})"
PAYLOAD = {"issue": {"number": 7, "title": "A {{body}} bug"}}
GUIDE = Path(__file__).parents[2] / "docs/guides/webhooks.md"


@dataclass
class HookServer:
    """A server with accounts, and a webhook of Bob."""

    server: AccountServer
    admin: httpx.AsyncClient
    bob: httpx.AsyncClient
    program: httpx.AsyncClient
    hook: str
    secret: str

    async def send(
        self, payload: object = PAYLOAD, *, delivery: str = "d1", hook: str | None = None, **changes: Any
    ) -> httpx.Response:
        """Send a delivery; `changes` are those of an attacker."""
        body = changes.get("body") or orjson.dumps(payload)
        at = changes.get("timestamp", str(int(time.time()) - changes.get("age", 0)))
        signature = sign(changes.get("secret", self.secret), at, delivery, body)
        headers = {TIMESTAMP: at, DELIVERY: delivery, SIGNATURE: signature, "content-type": "application/json"}
        headers |= changes.get("headers", {})
        sent = {name: value for name, value in headers.items() if value is not None}
        return await self.program.post(
            f"/api/hooks/{hook or self.hook}", content=changes.get("sent", body), headers=sent
        )

    async def threads(self, http: httpx.AsyncClient) -> list[str]:
        found = (await http.post("/api/threads/search", json={"limit": 100})).json()
        return [thread["thread_id"] for thread in found]

    async def messages(self, thread_id: str) -> list[str]:
        found = (await self.bob.get(f"/api/threads/{thread_id}/messages")).json()
        return [str(message["content"]) for message in found["messages"]]

    async def wait_for_answer(self, thread_id: str) -> None:
        while "Done." not in await self.messages(thread_id):
            pass  # each look is a request, which takes its time

    async def create(self, **settings: Any) -> tuple[str, str]:
        made = await self.bob.post("/api/hooks", json={"name": "CI", "settings": {"prompt": PROMPT, **settings}})
        assert made.status_code == 201, made.text
        return made.json()["hook"]["hook_id"], made.json()["secret"]


@asynccontextmanager
async def open_hooks(home: Path, **settings: Any) -> AsyncIterator[HookServer]:
    model = ScriptedModel.saying(*["Done."] * 40)
    async with asyncio.timeout(LIMIT_S), open_account_server(home, model, **OFF) as server:
        admin = await server.set_up()
        bob = await server.join(admin)
        hooks = HookServer(server, admin, bob, server.program(), "", "")
        hooks.hook, hooks.secret = await hooks.create(**settings)
        yield hooks


async def test_a_delivery_starts_one_run_of_the_owner(tmp_path: Path) -> None:
    async with open_hooks(tmp_path) as hooks:
        first = await hooks.send()
        assert first.status_code == 202, first.text
        again = await hooks.send()
        assert (again.status_code, again.json()) == (202, first.json())
        assert await hooks.threads(hooks.bob) == [first.json()["thread_id"]]
        assert await hooks.threads(hooks.admin) == []
        await hooks.wait_for_answer(first.json()["thread_id"])
        assert "Look at A {{body}} bug ()" in await hooks.messages(first.json()["thread_id"])
        owner = (await hooks.bob.get("/api/v1/auth/me")).json()["id"]
        runs = await hooks.server.harness.runs.list_by_thread(first.json()["thread_id"], Principal(owner), limit=9)
        assert [run.run_id for run in runs] == [first.json()["run_id"]]


async def test_deliveries_at_the_same_time_with_one_id_start_one_run(tmp_path: Path) -> None:
    async with open_hooks(tmp_path) as hooks:
        answers = await asyncio.gather(*(hooks.send() for _ in range(8)))
        assert {answer.status_code for answer in answers} == {202}
        assert len({answer.text for answer in answers}) == 1
        assert len(await hooks.threads(hooks.bob)) == 1


@pytest.mark.parametrize(
    ("settings", "count"), [({}, 3), ({"thread": "one"}, 1), ({"thread": "key", "key": "issue.number"}, 2)]
)
async def test_deliveries_share_threads_as_the_hook_says(tmp_path: Path, settings: dict[str, Any], count: int) -> None:
    async with open_hooks(tmp_path, **settings) as hooks:
        for at, number in enumerate((7, 8, 7)):
            sent = await hooks.send({"issue": {"number": number, "title": "x"}}, delivery=f"d{at}")
            assert sent.status_code == 202, sent.text
        assert len(await hooks.threads(hooks.bob)) == count


async def test_a_thread_that_was_deleted_is_begun_anew(tmp_path: Path) -> None:
    async with open_hooks(tmp_path, thread="one") as hooks:
        first = (await hooks.send()).json()
        await hooks.wait_for_answer(first["thread_id"])
        assert (await hooks.bob.delete(f"/api/threads/{first['thread_id']}")).is_success
        second = await hooks.send(delivery="d2")
        assert second.status_code == 202 and second.json()["thread_id"] != first["thread_id"]


ATTACKS: Mapping[str, dict[str, Any]] = {
    "no signature": {"headers": {SIGNATURE: None}},
    "empty signature": {"headers": {SIGNATURE: ""}},
    "signature without its prefix": {"headers": {SIGNATURE: "0" * 64}},
    "signature of another secret": {"secret": "whsec_guessed"},
    "empty secret": {"secret": ""},
    "signature that is no ASCII": {"headers": {SIGNATURE: b"sha256=\xe4\xf6"}},
    "another body": {"sent": b'{"issue": {"title": "forged"}}'},
    "no body": {"sent": b""},
    "no time": {"headers": {TIMESTAMP: None}},
    "another time": {"headers": {TIMESTAMP: "1000"}},
    "old": {"age": 301},
    "of the future": {"age": -100_000},
    "time that is no number": {"timestamp": "now"},
    "negative time": {"timestamp": "-1"},
    "time in other digits": {"headers": {TIMESTAMP: "١٧٦٣٥٨".encode()}},
    "enormous time": {"timestamp": "9" * 30},
    "no delivery id": {"headers": {DELIVERY: None}},
    "replayed under another delivery id": {"headers": {DELIVERY: "d2"}},
    "unknown hook": {"hook": "1f0a3c5e-7d42-4b1a-8019-0c0ffee0400c"},
    "hook with a path": {"hook": "..%2Fhooks"},
    "SQL": {"hook": "' OR 1=1 --"},
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_no_forged_request_starts_a_run(tmp_path: Path, attack: str) -> None:
    async with open_hooks(tmp_path) as hooks:
        refused = await hooks.send(**ATTACKS[attack])
        assert refused.status_code in (401, 404), refused.text
        assert await hooks.threads(hooks.bob) == await hooks.threads(hooks.admin) == []


async def test_no_valid_request_to_a_hook_that_may_not_be_used_starts_a_run(tmp_path: Path) -> None:
    async with open_hooks(tmp_path) as hooks:
        url = f"/api/hooks/{hooks.hook}"
        other_hook, other_secret = await hooks.create()
        assert (await hooks.send(secret=other_secret)).json()["error"] == "HookRefused"
        assert (await hooks.send(hook=other_hook)).json()["error"] == "HookRefused"
        for body, error in ((b"[1]", "InvalidRequest"), (b'"x"', "InvalidRequest")):
            assert (await hooks.send(body=body)).json()["error"] == error
        assert (await hooks.send(delivery="d 1")).json()["error"] == "InvalidRequest"
        huge = await hooks.send({"log": "x" * MAX_BODY_BYTES})
        assert (huge.status_code, huge.json()["error"]) == (413, "HookBodyTooLarge")

        assert (await hooks.bob.patch(url, json={"is_enabled": False})).json()["is_enabled"] is False
        assert (await hooks.send()).json()["error"] == "HookRefused"
        await hooks.bob.patch(url, json={"is_enabled": True})
        renewed = (await hooks.bob.post(f"{url}/secret")).json()["secret"]
        assert renewed != hooks.secret
        assert (await hooks.send()).json()["error"] == "HookRefused"

        me = (await hooks.bob.get("/api/v1/auth/me")).json()["id"]
        await hooks.server.harness.resources.accounts.change(me, is_active=False)
        assert (await hooks.send(secret=renewed)).json()["error"] == "HookRefused"
        await hooks.server.harness.resources.accounts.change(me, is_active=True)
        bob = await hooks.server.log_in("bob@example.com")
        assert (await bob.delete(url)).status_code == 204
        assert (await hooks.send(secret=renewed)).json()["error"] == "HookRefused"
        assert await hooks.threads(bob) == await hooks.threads(hooks.admin) == []


async def test_hooks_belong_to_one_person(tmp_path: Path) -> None:
    async with open_hooks(tmp_path) as hooks:
        url = f"/api/hooks/{hooks.hook}"
        assert (await hooks.admin.get("/api/hooks")).json() == []
        assert (await hooks.admin.patch(url, json={"is_enabled": False})).status_code == 404
        assert (await hooks.admin.post(f"{url}/secret")).status_code == 404
        assert (await hooks.admin.delete(url)).status_code == 404
        assert (await hooks.program.get("/api/hooks")).status_code == 401
        assert (await hooks.program.delete(url)).status_code == 401
        assert [each["hook_id"] for each in (await hooks.bob.get("/api/hooks")).json()] == [hooks.hook]
        wrong = await hooks.bob.post("/api/hooks", json={"name": "x", "settings": {"prompt": "x", "thread": "key"}})
        assert wrong.json()["detail"].startswith("`key` is needed")


async def test_a_secret_is_shown_once_and_stored_encrypted(tmp_path: Path) -> None:
    async with open_hooks(tmp_path) as hooks:
        await hooks.send()
        answers = [
            (await http.get(path)).text for http in (hooks.bob, hooks.admin) for path in ("/api/hooks", "/api/audit")
        ]
        assert not [answer for answer in answers if hooks.secret in answer]
        secret = hooks.secret
    assert files_with(secret, tmp_path) == []


def test_the_payload_is_untrusted_content() -> None:
    assert find_sources({"channel": WEBHOOK}) == {"webhook"}
    assert find_sources({"channel": "telegram"}) == find_sources({}) == set()


async def test_a_delivery_is_old_after_five_minutes(tmp_path: Path) -> None:
    async with open_hooks(tmp_path) as hooks:
        body, at = orjson.dumps(PAYLOAD), "1000"
        headers = {TIMESTAMP: at, DELIVERY: "d1", SIGNATURE: sign(hooks.secret, at, "d1", body)}
        harness = hooks.server.harness
        started = await HookReceiver(harness, lambda: 1300.0).receive(hooks.hook, headers, body)
        again = await HookReceiver(harness, lambda: 1299.0).receive(hooks.hook, headers, body)
        assert started == again
        with pytest.raises(Exception, match="too old"):
            await HookReceiver(harness, lambda: 1301.0).receive(hooks.hook, headers, body)


async def test_the_commands_of_the_guide_work(tmp_path: Path) -> None:
    """The shell commands in the guide send a delivery with curl and openssl."""
    script = re.findall(r"```bash\n(.*?)```", GUIDE.read_text(), re.DOTALL)[0]
    async with open_hooks(tmp_path) as hooks:
        values = {"URL": f"{hooks.server.url}/api/hooks/{hooks.hook}", "SECRET": hooks.secret}
        setting = "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())
        kept = "\n".join(line for line in script.splitlines() if not re.match(r"(URL|SECRET)=", line))
        shell = await asyncio.create_subprocess_exec(
            "bash", "-euc", setting + kept, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        output, errors = await shell.communicate()
        assert shell.returncode == 0, errors
        assert await hooks.threads(hooks.bob) == [orjson.loads(output)["thread_id"]]
