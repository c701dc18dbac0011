"""Management of chat apps: state, restart, connections of the page, codes and accounts."""

import asyncio
import io
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from deerflow.channels.service import open_channels
from deerflow.testing import ScriptedModel
from deerflow.testing.channels.telegram import TOKEN, FakeTelegram
from deerflow.tracing.logs import start_logging
from tests.canary import files_with
from tests.channels.support import OFF, OWNER
from tests.gateway.account_server import AccountServer, open_account_server

NAME, URL = "telegram", "/api/channels/telegram"
LIMIT_S = 60


@dataclass
class ManagedServer:
    """A server with accounts whose chat apps are managed over HTTP."""

    server: AccountServer
    admin: httpx.AsyncClient
    telegram: FakeTelegram

    async def wait_for(self, **wanted: object) -> dict[str, Any]:
        """Wait until a channel is in a state, and return it."""
        while True:
            for channel in (await self.admin.get("/api/channels")).json()["channels"]:
                found: dict[str, Any] = channel
                if all(bool(found[key]) == value for key, value in wanted.items()):
                    return found

    def settings(self, token: str = TOKEN) -> dict[str, Any]:
        return {"settings": {"bot_token": token, "base_url": self.telegram.base_url}}

    async def connect(self) -> None:
        saved = await self.admin.put(URL, json=self.settings())
        assert (saved.status_code, saved.json()) == (200, {"bot": "deer_bot"})
        await self.wait_for(connected_since=True)

    async def connect_account(self, http: httpx.AsyncClient, sender: int = OWNER) -> None:
        """Connect a chat account to the user of a client, and let it write a message."""
        made = await http.post(f"{URL}/code")
        assert made.status_code == 201, made.text
        for text in (made.json()["command"], "/help"):
            before = len(self.telegram.in_chat(sender))
            self.telegram.write(text, sender=sender)
            await self.telegram.wait_until(lambda before=before: len(self.telegram.in_chat(sender)) > before)


@asynccontextmanager
async def manage(home: Path, telegram: FakeTelegram, **settings: Any) -> AsyncIterator[ManagedServer]:
    async with (
        asyncio.timeout(LIMIT_S),
        open_account_server(home, ScriptedModel.saying(*["Hi"] * 5), **{**OFF, **settings}) as server,
        open_channels(server.harness, server.app.state.channels_changed),
    ):
        yield ManagedServer(server, await server.set_up(), telegram)


async def test_a_chat_app_of_the_page_is_connected_and_removed_while_the_server_runs(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram, manage(tmp_path, telegram) as managed:
        listed = (await managed.admin.get("/api/channels")).json()
        assert listed["channels"] == listed["accounts"] == []
        (app,) = [each for each in listed["apps"] if each["name"] == NAME]
        assert app["title"] == "Telegram" and not app["is_configured"]
        assert [(each["name"], each["is_required"]) for each in app["fields"]] == [
            ("bot_token", True),
            ("base_url", False),
        ]
        assert app["fields"][0]["description"] == "Token of the bot."
        await managed.connect()
        await managed.connect_account(managed.admin)
        channel = await managed.wait_for(received=True, sent=True)
        assert (channel["source"], channel["bot"], channel["last_error"]) == ("page", "deer_bot", None)
        assert (channel["received"], channel["is_running"]) == (2, True)
        metrics = (await managed.admin.get("/metrics")).text
        assert 'deerflow_channel_connected{channel="telegram"} 1.0' in metrics
        assert 'deerflow_channel_messages_total{channel="telegram",direction="in"} 2.0' in metrics

        assert (await managed.admin.delete(URL)).status_code == 204
        assert (await managed.admin.get("/api/channels")).json()["channels"] == []
        polls = telegram.polls
        assert (await managed.admin.put(URL, json=managed.settings())).status_code == 200
        await telegram.wait_until(lambda: telegram.polls > polls)
        assert (await managed.admin.delete(URL)).status_code == 204
        assert (await managed.admin.delete(URL)).json()["error"] == "NotFound"


async def test_a_restart_logs_in_again_and_keeps_the_counts(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram, manage(tmp_path, telegram) as managed:
        await managed.connect()
        await managed.connect_account(managed.admin)
        before = await managed.wait_for(sent=True)
        logins = count_logins(telegram)
        assert (await managed.admin.post(f"{URL}/restart")).status_code == 202
        await telegram.wait_until(lambda: count_logins(telegram) > logins)
        after = await managed.wait_for(connected_since=True)
        assert after["received"] == before["received"]
        assert (await managed.admin.post("/api/channels/none/restart")).json()["error"] == "NotFound"


def count_logins(telegram: FakeTelegram) -> int:
    return sum(call.method == "getMe" for call in telegram.calls)


async def test_a_wrong_token_is_not_saved_and_not_repeated(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram, manage(tmp_path, telegram) as managed:
        for method, url in (("POST", f"{URL}/check"), ("PUT", URL)):
            refused = await managed.admin.request(method, url, json=managed.settings("99:wrong-token"))
            assert refused.status_code == 422 and "does not accept the token" in refused.json()["detail"]
            assert "wrong-token" not in refused.text
        missing = await managed.admin.put(URL, json={"settings": {"bot_token": " "}})
        assert missing.json()["detail"] == "missing or invalid: bot_token"
        unknown = await managed.admin.put("/api/channels/none", json=managed.settings())
        assert unknown.status_code == 422
        assert (await managed.admin.get("/api/channels")).json()["channels"] == []


async def test_the_configuration_wins_over_the_page(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram:
        async with manage(tmp_path, telegram) as managed:
            await managed.connect()
        channels = {NAME: {"bot_token": TOKEN, "base_url": telegram.base_url}}
        source_of = {}
        async with open_account_server(tmp_path, channels=channels, **OFF) as server:
            admin = await server.log_in()
            for channel in (await admin.get("/api/channels")).json()["channels"]:
                source_of[channel["source"]] = channel["is_overridden"]
            refused = await admin.put(URL, json={"settings": {"bot_token": TOKEN}})
            assert refused.status_code == 409 and "config.yaml has telegram" in refused.json()["detail"]
        assert source_of == {"config": False, "page": True}


async def test_people_connect_their_own_accounts_and_change_nothing_else(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram, manage(tmp_path, telegram) as managed:
        bob = await managed.server.join(managed.admin)
        assert (await bob.post(f"{URL}/code")).json()["error"] == "NotFound"  # no chat app is connected yet
        await managed.connect()
        seen = (await bob.get("/api/channels")).json()
        assert [each["name"] for each in seen["channels"]] == [NAME] and not seen["can_change"]
        for method, path in (("PUT", ""), ("DELETE", ""), ("POST", "/restart"), ("POST", "/check")):
            body = managed.settings() if method == "PUT" or path == "/check" else None
            assert (await bob.request(method, URL + path, json=body)).status_code == 403
        await managed.connect_account(managed.admin, sender=1)
        await managed.connect_account(bob, sender=2)
        telegram.write("Hello", sender=2)
        await telegram.wait_until(lambda: telegram.in_chat(2)[-1].text == "Hi")
        assert (await bob.post(f"{URL}/test")).status_code == 202
        await telegram.wait_until(lambda: telegram.in_chat(2)[-1].text == "✅ DeerFlow")
        assert telegram.in_chat(1)[-1].text != "✅ DeerFlow"
        (account,) = (await bob.get("/api/channels")).json()["accounts"]
        assert (account["external_id"], account["name"]) == ("2", "Person 2")
        assert (await bob.delete(f"{URL}/accounts/1")).json()["error"] == "NotFound"
        assert (await bob.delete(f"{URL}/accounts/2")).status_code == 204
        assert (await bob.get("/api/channels")).json()["accounts"] == []
        assert len((await managed.admin.get("/api/channels")).json()["accounts"]) == 1


async def test_a_test_message_goes_to_the_own_chat(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram, manage(tmp_path, telegram) as managed:
        await managed.connect()
        nowhere = await managed.admin.post(f"{URL}/test")
        assert nowhere.status_code == 404 and "write to the bot first" in nowhere.json()["detail"]
        await managed.connect_account(managed.admin)
        telegram.write("Hello")
        await telegram.wait_until(lambda: telegram.in_chat(OWNER)[-1].text == "Hi")
        assert (await managed.admin.post(f"{URL}/test")).status_code == 202
        await telegram.wait_until(lambda: telegram.in_chat(OWNER)[-1].text == "✅ DeerFlow")
        await managed.wait_for(sent=True)
        assert [message.text for message in telegram.in_chat(OWNER)].count("✅ DeerFlow") == 1


async def test_a_token_of_the_page_is_in_no_answer_log_or_file(tmp_path: Path) -> None:
    log = io.StringIO()
    async with FakeTelegram() as telegram, manage(tmp_path, telegram) as managed:
        handler = start_logging("debug", "text", log, managed.server.harness.core.source.redact)
        try:
            await managed.connect()
            await managed.connect_account(managed.admin)
            logging.getLogger("deerflow").warning("a library repeats %s", TOKEN)
            answers = [
                (await managed.admin.get(path)).text
                for path in ("/api/channels", "/metrics", "/api/audit", "/api/features", "/api/audit/export")
            ]
        finally:
            logging.root.removeHandler(handler)
        assert not [answer for answer in answers if TOKEN in answer]
        assert "configuration.channel" in answers[2]
    assert TOKEN not in log.getvalue() and "a library repeats ****" in log.getvalue()
    assert files_with(TOKEN, tmp_path) == []


@pytest.mark.parametrize("requires_login", [True, False])
async def test_without_chat_apps_there_is_no_code(tmp_path: Path, requires_login: bool) -> None:
    async with open_account_server(tmp_path, requires_login=requires_login, **OFF) as server:
        http = await server.set_up() if requires_login else server.browser()
        refused = await http.post(f"{URL}/code")
        assert (refused.status_code, refused.json()["error"]) == (404, "NotFound")
