"""Logins at MCP servers, against a real authorization server and a real protected MCP server."""

import asyncio
import shutil
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from deerflow.config.extensions import McpServerConfig
from deerflow.domain.errors import ConfigError, InvalidRequest, McpLoginFailed, NotFound
from deerflow.mcp.auth import LoginNeeded
from deerflow.mcp.login_words import CameBack, Finished
from deerflow.mcp.logins import LoginStore
from deerflow.mcp.oauth_login import BrowserLogins
from deerflow.mcp.status import ToolCard
from deerflow.mcp.tokens import ServerTokens
from deerflow.mcp.tool_pins import ToolPins
from deerflow.mcp.vault import Vault
from deerflow.persistence.database import open_database
from tests.mcp.login_server import ROBOT, ROBOT_SECRET, LoginServer, call_whoami, follow, serving_logins

CALLBACK = "http://127.0.0.1:2026/api/mcp/oauth/callback"
ANN, BOB = "ann", "bob"


@pytest.fixture(scope="module")
def running() -> Iterator[LoginServer]:
    with serving_logins() as server:
        yield server


@pytest.fixture
def server(running: LoginServer) -> LoginServer:
    running.asked.clear()
    running.forms.clear()
    running.lives_s, running.denies, running.next_person = 3600, False, "somebody"
    return running


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("migrated") / "d.db"

    async def make() -> None:
        async with open_database(file):
            pass

    asyncio.run(make())
    return file


@pytest.fixture(autouse=True)
def database_at_hand(migrated: Path, tmp_path: Path) -> None:
    """Each test has a database of its own; only the first is made step by step."""
    shutil.copy(migrated, tmp_path / "d.db")


@dataclass
class Clock:
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass
class Desk:
    """What a server of ours has for logins."""

    tokens: ServerTokens
    logins: BrowserLogins
    store: LoginStore
    clock: Clock
    entries: dict[str, McpServerConfig]

    async def log_in(self, server: LoginServer, user: str, name: str = "x") -> Finished:
        server.next_person = user
        started = await self.logins.start(name, user, CALLBACK)
        back = await follow(started.authorization_url)
        return await self.logins.finish(user, CameBack(back.params["state"], back.params.get("code")))


@asynccontextmanager
async def opened(
    home: Path, entry: McpServerConfig, clock: Clock | None = None, key: str = "", place: Path | str = ""
) -> AsyncIterator[Desk]:
    entries, clock = {"x": entry}, clock or Clock()
    async with open_database(place or home / "d.db") as database:
        store = LoginStore(database, Vault(home / "mcp.key", key or None))
        tokens = ServerTokens(lambda: entries, store, clock)
        await tokens.open()
        try:
            yield Desk(tokens, BrowserLogins(lambda: entries, store, clock), store, clock, entries)
        finally:
            await tokens.aclose()


def entry(server: LoginServer, **oauth: object) -> McpServerConfig:
    block = {"oauth": oauth} if oauth else {}
    return McpServerConfig.model_validate({"type": "http", "url": server.url, "allow_private_addresses": True, **block})


def program(server: LoginServer) -> McpServerConfig:
    token_url = server.url.replace("/mcp", "/token")
    return entry(server, token_url=token_url, client_id=ROBOT, client_secret=ROBOT_SECRET, scope="tools")


def renewing(server: LoginServer, refresh_token: str) -> McpServerConfig:
    token_url = server.url.replace("/mcp", "/token")
    grant = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    return entry(server, token_url=token_url, client_id=ROBOT, client_secret=ROBOT_SECRET, **grant)


async def test_a_program_logs_in_with_its_own_credentials_and_calls_a_tool(server: LoginServer, tmp_path: Path) -> None:
    async with opened(tmp_path, program(server)) as desk:
        header = await desk.tokens.header("x", ANN)
        assert header is not None and await call_whoami(server.url, header) == "the robot"
        assert await desk.tokens.header("x", BOB) == header
        assert server.asked == {"client_credentials": 1}
        assert server.forms[0]["scope"] == "tools"


async def test_many_callers_wait_for_one_token(server: LoginServer, tmp_path: Path) -> None:
    async with opened(tmp_path, program(server)) as desk, asyncio.timeout(10):
        headers = await asyncio.gather(*(desk.tokens.header("x", f"user {each}") for each in range(50)))
        assert len(set(headers)) == 1 and server.asked["client_credentials"] == 1
        desk.clock.pass_by(3600 - 59)  # a minute before its end a token is renewed
        later = await asyncio.gather(*(desk.tokens.header("x", ANN) for _ in range(50)))
        assert len(set(later)) == 1 and later[0] != headers[0] and server.asked["client_credentials"] == 2


async def test_two_processes_fetch_one_token(server: LoginServer, tmp_path: Path) -> None:
    clock = Clock()
    first, second = opened(tmp_path, program(server), clock), opened(tmp_path, program(server), clock)
    async with first as one, second as other, asyncio.timeout(10):
        headers = await asyncio.gather(*(desk.tokens.header("x", ANN) for desk in (one, other, one, other)))
    assert len(set(headers)) == 1 and server.asked["client_credentials"] == 1


async def test_it_is_the_same_on_postgres(server: LoginServer, tmp_path: Path, postgres_url: str) -> None:
    clock, config = Clock(), entry(server)
    first = opened(tmp_path, config, clock, place=postgres_url)
    second = opened(tmp_path, config, clock, place=postgres_url)
    async with first as one, second as other, asyncio.timeout(20):
        await one.log_in(server, ANN)
        clock.pass_by(3600)
        headers = await asyncio.gather(*(desk.tokens.header("x", ANN) for desk in (one, other, one, other)))
        assert len(set(headers)) == 1 and server.asked["refresh_token"] == 1
        assert await call_whoami(server.url, headers[0] or "") == ANN
        card = ToolCard("add", "Adds \0 \ud800.")
        pins = [ToolPins(desk.store.database) for desk in (one, other)]
        assert [verdict.accepted for verdict in await asyncio.gather(*(each.check("x", [card]) for each in pins))] == [
            ("add",),
            ("add",),
        ]
        await pins[0].check("x", [replace(card, description="Other.")])
        offered = (await pins[1].list("x"))[0].offered
        assert offered is not None
        await pins[1].accept("x", {"add": offered.hash}, "the admin")
        await one.store.forget_person(ANN)
        assert await other.store.load(ANN, "x") is None


async def test_whoever_stops_waiting_does_not_stop_the_others(server: LoginServer, tmp_path: Path) -> None:
    async with opened(tmp_path, program(server)) as desk, asyncio.timeout(10):
        impatient = asyncio.create_task(desk.tokens.header("x", ANN))
        patient = asyncio.create_task(desk.tokens.header("x", BOB))
        await asyncio.sleep(0)
        impatient.cancel()
        assert await patient is not None
        assert server.asked["client_credentials"] == 1


async def test_a_rotated_refresh_token_survives_a_restart(server: LoginServer, tmp_path: Path) -> None:
    given = server.issue(ROBOT, "ann's robot", None).refresh_token
    config = renewing(server, given or "")
    clock = Clock()
    async with opened(tmp_path, config, clock) as desk:
        header = await desk.tokens.header("x", ANN)
        assert header is not None and await call_whoami(server.url, header) == "ann's robot"
    async with opened(tmp_path, config, clock) as desk:
        assert await desk.tokens.header("x", ANN) == header
        clock.pass_by(4000)
        again = await desk.tokens.header("x", ANN)
        assert again is not None and await call_whoami(server.url, again) == "ann's robot"
    assert server.asked == {"refresh_token": 2}
    assert given not in server.refresh


async def test_a_person_logs_in_at_a_server_nobody_knew_and_calls_a_tool(server: LoginServer, tmp_path: Path) -> None:
    async with opened(tmp_path, entry(server)) as desk:
        assert await desk.tokens.header("x", ANN) is None
        assert not await desk.tokens.rejected("x", ANN, None, "Bearer")
        with pytest.raises(LoginNeeded, match="log in at the MCP server 'x' first"):
            await desk.tokens.header("x", ANN)
        assert (await desk.tokens.status("x", ANN)).state == "needs_login"

        assert await desk.log_in(server, ANN) == Finished("x", None)
        header = await desk.tokens.header("x", ANN)
        assert header is not None and await call_whoami(server.url, header) == ANN
        status = await desk.tokens.status("x", ANN)
        assert (status.kind, status.state, status.scope) == ("personal", "logged_in", "tools")
        assert status.issuer is not None and server.url.startswith(status.issuer)
        assert server.asked == {"register": 1, "authorization_code": 1}
        assert server.forms[0]["resource"] == server.url and server.forms[0]["code_verifier"]


async def test_nobody_uses_the_token_of_another(server: LoginServer, tmp_path: Path) -> None:
    async with opened(tmp_path, entry(server, grant_type="authorization_code")) as desk:
        await desk.log_in(server, ANN)
        with pytest.raises(LoginNeeded):
            await desk.tokens.header("x", BOB)
        await desk.log_in(server, BOB)
        for user in (ANN, BOB):
            assert await call_whoami(server.url, await desk.tokens.header("x", user) or "") == user
        await desk.store.forget(ANN, "x")
        with pytest.raises(LoginNeeded):
            await desk.tokens.header("x", ANN)
        assert await call_whoami(server.url, await desk.tokens.header("x", BOB) or "") == BOB


async def test_a_login_is_renewed_early_and_once_for_all_who_wait(server: LoginServer, tmp_path: Path) -> None:
    async with opened(tmp_path, entry(server)) as desk, asyncio.timeout(10):
        await desk.log_in(server, ANN)
        before = await desk.tokens.header("x", ANN)
        desk.clock.pass_by(3600 - 30)
        headers = set(await asyncio.gather(*(desk.tokens.header("x", ANN) for _ in range(30))))
        assert len(headers) == 1 and before not in headers
        assert server.asked["refresh_token"] == 1
        assert await call_whoami(server.url, headers.pop() or "") == ANN


async def test_a_revoked_login_has_to_be_made_again(server: LoginServer, tmp_path: Path) -> None:
    async with opened(tmp_path, entry(server)) as desk:
        await desk.log_in(server, ANN)
        header = await desk.tokens.header("x", ANN)
        server.revoke_everything()
        desk.clock.pass_by(60)
        assert not await desk.tokens.rejected("x", ANN, header, "Bearer")
        with pytest.raises(LoginNeeded):
            await desk.tokens.header("x", ANN)
        assert (await desk.tokens.status("x", ANN)).state == "needs_login"
        await desk.log_in(server, ANN)
        assert await call_whoami(server.url, await desk.tokens.header("x", ANN) or "") == ANN


async def test_a_token_that_is_refused_before_its_end_is_renewed(server: LoginServer, tmp_path: Path) -> None:
    async with opened(tmp_path, entry(server)) as desk:
        await desk.log_in(server, ANN)
        header = await desk.tokens.header("x", ANN) or ""
        server.access.clear()
        desk.clock.pass_by(60)
        assert await desk.tokens.rejected("x", ANN, header, "Bearer")
        assert await desk.tokens.rejected("x", ANN, header, "Bearer")  # somebody else has just seen to it
        assert await call_whoami(server.url, await desk.tokens.header("x", ANN) or "") == ANN
        assert server.asked["refresh_token"] == 1


async def test_a_server_that_takes_no_token_at_all_is_not_asked_for_more_and_more(
    server: LoginServer, tmp_path: Path
) -> None:
    async with opened(tmp_path, program(server)) as desk:
        header = await desk.tokens.header("x", ANN)
        assert not await desk.tokens.rejected("x", ANN, header, "Bearer")
        assert server.asked["client_credentials"] == 1
        desk.clock.pass_by(60)
        assert await desk.tokens.rejected("x", ANN, header, "Bearer")
        assert server.asked["client_credentials"] == 2
        desk.entries["x"] = entry(server)
        await desk.log_in(server, ANN)
        header = await desk.tokens.header("x", ANN)
        assert not await desk.tokens.rejected("x", ANN, header, "Bearer")
        assert (await desk.tokens.status("x", ANN)).state == "needs_login"


async def test_nothing_secret_can_be_read_in_the_files(server: LoginServer, tmp_path: Path) -> None:
    async with opened(tmp_path, entry(server)) as desk:
        await desk.log_in(server, ANN)
        await desk.logins.start("x", BOB, CALLBACK)
        begun = [form["code_verifier"] for form in server.forms if "code_verifier" in form]
        clients = [client.client_secret for name, client in server.clients.items() if name != ROBOT]
        found = all_bytes(tmp_path, but_not="mcp.key")
    assert b"mcp_tokens" in found
    assert begun and all(clients)
    for secret in ("access-canary", "refresh-canary", *begun, *clients):
        assert (secret or "").encode() not in found
    assert stat.S_IMODE((tmp_path / "mcp.key").stat().st_mode) == 0o600


async def test_a_lost_key_means_to_log_in_again_and_breaks_nothing(server: LoginServer, tmp_path: Path) -> None:
    async with opened(tmp_path, entry(server)) as desk:
        await desk.log_in(server, ANN)
    (tmp_path / "mcp.key").unlink()
    async with opened(tmp_path, entry(server)) as desk:
        assert (await desk.tokens.status("x", ANN)).state == "expired_key"
        with pytest.raises(LoginNeeded):
            await desk.tokens.header("x", ANN)
        await desk.log_in(server, ANN)
        assert (await desk.tokens.status("x", ANN)).state == "logged_in"
    (tmp_path / "mcp.key").write_bytes(b"half a key")
    async with opened(tmp_path, entry(server)) as desk:
        assert (await desk.tokens.status("x", ANN)).state == "expired_key"
        with pytest.raises(ConfigError, match="holds no key; bring it back, or remove it"):
            await desk.log_in(server, ANN)
    assert (tmp_path / "mcp.key").read_bytes() == b"half a key"
    async with opened(tmp_path, program(server), key="k" * 32) as desk:
        assert await desk.tokens.header("x", ANN) is not None
    async with opened(tmp_path, program(server), key="l" * 32) as desk:
        assert await desk.tokens.header("x", ANN) is not None
    with pytest.raises(ConfigError, match="DEER_FLOW_SECRET_KEY needs at least 32 characters"):
        Vault(tmp_path / "mcp.key", "short")


async def test_a_state_is_good_once_for_a_while_and_for_whoever_began(server: LoginServer, tmp_path: Path) -> None:
    async with opened(tmp_path, entry(server)) as desk:
        back = await follow((await desk.logins.start("x", ANN, CALLBACK)).authorization_url)
        came = CameBack(back.params["state"], back.params["code"])
        with pytest.raises(McpLoginFailed, match="begun by somebody else"):
            await desk.logins.finish(BOB, came)
        assert (await desk.logins.finish(ANN, came)).problem is None
        with pytest.raises(McpLoginFailed, match="was used already"):
            await desk.logins.finish(ANN, came)
        late = await follow((await desk.logins.start("x", ANN, CALLBACK)).authorization_url)
        desk.clock.pass_by(601)
        with pytest.raises(McpLoginFailed, match="this login is over"):
            await desk.logins.finish(ANN, CameBack(late.params["state"], late.params["code"]))


async def test_a_login_that_is_denied_or_comes_from_elsewhere_is_none(server: LoginServer, tmp_path: Path) -> None:
    async with opened(tmp_path, entry(server)) as desk:
        server.denies = True
        back = await follow((await desk.logins.start("x", ANN, CALLBACK, "/settings")).authorization_url)
        ended = await desk.logins.finish(ANN, CameBack(back.params["state"], error=back.params["error"]))
        assert ended == Finished("x", "/settings", "127.0.0.1 did not let you in: access_denied")
        server.denies = False
        back = await follow((await desk.logins.start("x", ANN, CALLBACK)).authorization_url)
        mixed = CameBack(back.params["state"], back.params["code"], issuer="https://evil.example")
        assert "does not come from" in ((await desk.logins.finish(ANN, mixed)).problem or "")
        back = await follow((await desk.logins.start("x", ANN, CALLBACK)).authorization_url)
        ended = await desk.logins.finish(ANN, CameBack(back.params["state"], "another code"))
        assert ended.problem == "127.0.0.1 refused: invalid_grant"
        assert server.asked["refresh_token"] == 0 and await desk.store.load(ANN, "x") is None


async def test_an_entry_that_is_changed_makes_its_logins_void(server: LoginServer, tmp_path: Path) -> None:
    async with opened(tmp_path, entry(server)) as desk:
        await desk.log_in(server, ANN)
        desk.entries["x"] = entry(server, grant_type="authorization_code", scope="tools more")
        with pytest.raises(LoginNeeded):
            await desk.tokens.header("x", ANN)


async def test_wrong_credentials_are_told_without_being_repeated(server: LoginServer, tmp_path: Path) -> None:
    token_url = server.url.replace("/mcp", "/token")
    wrong = entry(server, token_url=token_url, client_id=ROBOT, client_secret="wrong-secret-canary")
    async with opened(tmp_path, wrong) as desk:
        with pytest.raises(McpLoginFailed, match="refused: invalid_client: check `oauth` of 'x'") as told:
            await desk.tokens.header("x", ANN)
        assert "canary" not in str(told.value)


async def test_what_is_in_this_network_is_asked_only_where_that_is_configured(
    server: LoginServer, tmp_path: Path
) -> None:
    async with opened(tmp_path, program(server).model_copy(update={"allow_private_addresses": False})) as desk:
        with pytest.raises(McpLoginFailed, match="not on the public internet.*allow_private_addresses"):
            await desk.tokens.header("x", ANN)
    plain = entry(server, token_url="http://login.example/token", client_id=ROBOT, client_secret=ROBOT_SECRET)
    async with opened(tmp_path, plain) as desk:
        with pytest.raises(McpLoginFailed, match="is not reached by https"):
            await desk.tokens.header("x", ANN)
    assert not server.asked


async def test_only_servers_where_people_log_in_begin_a_login(server: LoginServer, tmp_path: Path) -> None:
    async with opened(tmp_path, program(server)) as desk:
        with pytest.raises(InvalidRequest, match="nobody logs in"):
            await desk.logins.start("x", ANN, CALLBACK)
        with pytest.raises(NotFound):
            await desk.logins.start("y", ANN, CALLBACK)
    command = McpServerConfig.model_validate({"command": "npx"})
    async with opened(tmp_path, command) as desk:
        assert await desk.tokens.header("x", ANN) is None
        assert (await desk.tokens.status("x", ANN)).kind == "none"


def all_bytes(folder: Path, but_not: str) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir() if file.name != but_not)
