"""Tests of OAuth logins with a real authorization server and a real protected MCP server."""

import asyncio
import shutil
import socket
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from deerflow.config.sections.base import Settings
from deerflow.config.sections.extensions import McpServerConfig
from deerflow.domain.errors import ConfigError, DeerFlowError, InvalidRequest, McpLoginFailed, NotFound
from deerflow.mcp.auth.service import OAuthService
from deerflow.mcp.auth.token_store import TokenStore
from deerflow.mcp.auth.tokens import LoginCallback, LoginRedirect, LoginRequired, LoginResult
from deerflow.mcp.pins import ToolPins
from deerflow.mcp.session.calls import ServerAddress, SessionDependencies
from deerflow.mcp.session.pool import SessionPool
from deerflow.mcp.status import McpToolInfo
from deerflow.persistence.encryption import TokenCipher
from deerflow.persistence.engine import open_database
from deerflow.sandbox.jobs.services import Service, ServiceSpec
from tests.mcp.login_server import (
    ROBOT,
    ROBOT_SECRET,
    SCOPE,
    LoginServer,
    call_whoami,
    follow_redirect,
    serve_in_thread,
    serving_logins,
)

CALLBACK = "http://127.0.0.1:2026/api/mcp/oauth/callback"
ANN, BOB = "ann", "bob"


@pytest.fixture(scope="module")
def running() -> Iterator[LoginServer]:
    with serving_logins() as server:
        yield server


@pytest.fixture
def server(running: LoginServer) -> LoginServer:
    running.request_counts.clear()
    running.forms.clear()
    running.token_lifetime_s, running.is_denying, running.next_user = 3600, False, "somebody"
    running.wants_basic = False
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
def copy_database(migrated: Path, tmp_path: Path) -> None:
    """Give each test its own copy of a migrated database."""
    shutil.copy(migrated, tmp_path / "d.db")


@dataclass
class Clock:
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass
class OAuthFixture:
    """OAuth service with its store, clock and entries."""

    oauth: OAuthService
    store: TokenStore
    clock: Clock
    entries: dict[str, McpServerConfig]

    async def log_in(self, server: LoginServer, user: str, name: str = "x") -> LoginResult:
        server.next_user = user
        started = await self.oauth.start(name, user, LoginRedirect(CALLBACK))
        back = await follow_redirect(started.authorization_url)
        return await self.oauth.finish(user, LoginCallback(back.params["state"], back.params.get("code")))


@asynccontextmanager
async def open_oauth(
    home: Path, entry: McpServerConfig, clock: Clock | None = None, key: str = "", place: Path | str = ""
) -> AsyncIterator[OAuthFixture]:
    entries, clock = {"x": entry}, clock or Clock()
    async with open_database(place or home / "d.db") as database:
        store = TokenStore(database, TokenCipher(home / "mcp.key", key or None))
        oauth = OAuthService(Settings(lambda: entries), store, clock)
        await oauth.open()
        try:
            yield OAuthFixture(oauth, store, clock, entries)
        finally:
            await oauth.aclose()


def build_entry(server: LoginServer, **oauth: object) -> McpServerConfig:
    block = {"oauth": oauth} if oauth else {}
    return McpServerConfig.model_validate({"type": "http", "url": server.url, "allow_private_addresses": True, **block})


def build_client_credentials_entry(server: LoginServer) -> McpServerConfig:
    token_url = server.url.replace("/mcp", "/token")
    return build_entry(server, token_url=token_url, client_id=ROBOT, client_secret=ROBOT_SECRET, scope="tools")


def build_refresh_token_entry(server: LoginServer, refresh_token: str) -> McpServerConfig:
    token_url = server.url.replace("/mcp", "/token")
    grant = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    return build_entry(server, token_url=token_url, client_id=ROBOT, client_secret=ROBOT_SECRET, **grant)


async def test_client_credentials_give_a_token_for_all_users(server: LoginServer, tmp_path: Path) -> None:
    async with open_oauth(tmp_path, build_client_credentials_entry(server)) as world:
        header = await world.oauth.header("x", ANN)
        assert header is not None and await call_whoami(server.url, header) == "the robot"
        assert await world.oauth.header("x", BOB) == header
        assert server.request_counts == {"client_credentials": 1}
        assert server.forms[0]["scope"] == "tools"


async def test_concurrent_callers_share_one_token_request(server: LoginServer, tmp_path: Path) -> None:
    async with open_oauth(tmp_path, build_client_credentials_entry(server)) as world, asyncio.timeout(10):
        headers = await asyncio.gather(*(world.oauth.header("x", f"user {each}") for each in range(50)))
        assert len(set(headers)) == 1 and server.request_counts["client_credentials"] == 1
        world.clock.pass_by(3600 - 59)  # tokens are renewed a minute before expiry
        later = await asyncio.gather(*(world.oauth.header("x", ANN) for _ in range(50)))
        assert len(set(later)) == 1 and later[0] != headers[0] and server.request_counts["client_credentials"] == 2


async def test_two_processes_request_one_token(server: LoginServer, tmp_path: Path) -> None:
    clock = Clock()
    first, second = (
        open_oauth(tmp_path, build_client_credentials_entry(server), clock),
        open_oauth(tmp_path, build_client_credentials_entry(server), clock),
    )
    async with first as one, second as other, asyncio.timeout(10):
        headers = await asyncio.gather(*(world.oauth.header("x", ANN) for world in (one, other, one, other)))
    assert len(set(headers)) == 1 and server.request_counts["client_credentials"] == 1


async def test_works_on_postgres(server: LoginServer, tmp_path: Path, postgres_url: str) -> None:
    clock, config = Clock(), build_entry(server)
    first = open_oauth(tmp_path, config, clock, place=postgres_url)
    second = open_oauth(tmp_path, config, clock, place=postgres_url)
    async with first as one, second as other, asyncio.timeout(20):
        await one.log_in(server, ANN)
        clock.pass_by(3600)
        headers = await asyncio.gather(*(world.oauth.header("x", ANN) for world in (one, other, one, other)))
        assert len(set(headers)) == 1 and server.request_counts["refresh_token"] == 1
        assert await call_whoami(server.url, headers[0] or "") == ANN
        tool = McpToolInfo("add", "Adds \0 \ud800.")
        pins = [ToolPins(world.store.database) for world in (one, other)]
        assert [check.accepted for check in await asyncio.gather(*(each.check("x", [tool]) for each in pins))] == [
            ("add",),
            ("add",),
        ]
        await pins[0].check("x", [replace(tool, description="Other.")])
        offered = (await pins[1].list("x"))[0].offered
        assert offered is not None
        await pins[1].accept("x", {"add": offered.hash}, "the admin")
        await one.oauth.forget(ANN, "x")
        assert await other.store.load(ANN, "x") is None


async def test_cancelled_caller_does_not_cancel_the_renewal(server: LoginServer, tmp_path: Path) -> None:
    async with open_oauth(tmp_path, build_client_credentials_entry(server)) as world, asyncio.timeout(10):
        impatient = asyncio.create_task(world.oauth.header("x", ANN))
        patient = asyncio.create_task(world.oauth.header("x", BOB))
        await asyncio.sleep(0)
        impatient.cancel()
        assert await patient is not None
        assert server.request_counts["client_credentials"] == 1


async def test_rotated_refresh_token_survives_a_restart(server: LoginServer, tmp_path: Path) -> None:
    given = server.issue(ROBOT, "ann's robot", None).refresh_token
    config = build_refresh_token_entry(server, given or "")
    clock = Clock()
    async with open_oauth(tmp_path, config, clock) as world:
        header = await world.oauth.header("x", ANN)
        assert header is not None and await call_whoami(server.url, header) == "ann's robot"
    async with open_oauth(tmp_path, config, clock) as world:
        assert await world.oauth.header("x", ANN) == header
        clock.pass_by(4000)
        again = await world.oauth.header("x", ANN)
        assert again is not None and await call_whoami(server.url, again) == "ann's robot"
    assert server.request_counts == {"refresh_token": 2}
    assert given not in server.refresh


async def test_user_logs_in_with_discovery_and_registration(server: LoginServer, tmp_path: Path) -> None:
    async with open_oauth(tmp_path, build_entry(server)) as world:
        assert await world.oauth.header("x", ANN) is None
        assert not await world.oauth.rejected("x", ANN, None, "Bearer")
        with pytest.raises(LoginRequired, match="log in at the MCP server 'x' first"):
            await world.oauth.header("x", ANN)
        assert (await world.oauth.status("x", ANN)).state == "needs_login"

        assert await world.log_in(server, ANN) == LoginResult("x", None)
        header = await world.oauth.header("x", ANN)
        assert header is not None and await call_whoami(server.url, header) == ANN
        status = await world.oauth.status("x", ANN)
        assert (status.kind, status.state, status.scope) == ("personal", "logged_in", "tools")
        assert status.issuer is not None and server.url.startswith(status.issuer)
        assert server.request_counts == {"register": 1, "authorization_code": 1}
        assert server.forms[0]["resource"] == server.url and server.forms[0]["code_verifier"]


async def test_users_have_separate_tokens(server: LoginServer, tmp_path: Path) -> None:
    async with open_oauth(tmp_path, build_entry(server, grant_type="authorization_code")) as world:
        await world.log_in(server, ANN)
        with pytest.raises(LoginRequired):
            await world.oauth.header("x", BOB)
        await world.log_in(server, BOB)
        for user in (ANN, BOB):
            assert await call_whoami(server.url, await world.oauth.header("x", user) or "") == user
        await world.store.forget(ANN, "x")
        with pytest.raises(LoginRequired):
            await world.oauth.header("x", ANN)
        assert await call_whoami(server.url, await world.oauth.header("x", BOB) or "") == BOB


async def test_login_is_renewed_before_expiry_and_once(server: LoginServer, tmp_path: Path) -> None:
    async with open_oauth(tmp_path, build_entry(server)) as world, asyncio.timeout(10):
        await world.log_in(server, ANN)
        before = await world.oauth.header("x", ANN)
        world.clock.pass_by(3600 - 30)
        headers = set(await asyncio.gather(*(world.oauth.header("x", ANN) for _ in range(30))))
        assert len(headers) == 1 and before not in headers
        assert server.request_counts["refresh_token"] == 1
        assert await call_whoami(server.url, headers.pop() or "") == ANN


async def test_revoked_login_requires_a_new_login(server: LoginServer, tmp_path: Path) -> None:
    async with open_oauth(tmp_path, build_entry(server)) as world:
        await world.log_in(server, ANN)
        header = await world.oauth.header("x", ANN)
        server.revoke_everything()
        world.clock.pass_by(60)
        assert not await world.oauth.rejected("x", ANN, header, "Bearer")
        with pytest.raises(LoginRequired):
            await world.oauth.header("x", ANN)
        assert (await world.oauth.status("x", ANN)).state == "needs_login"
        await world.log_in(server, ANN)
        assert await call_whoami(server.url, await world.oauth.header("x", ANN) or "") == ANN


async def test_rejected_token_is_renewed(server: LoginServer, tmp_path: Path) -> None:
    async with open_oauth(tmp_path, build_entry(server)) as world:
        await world.log_in(server, ANN)
        header = await world.oauth.header("x", ANN) or ""
        server.access.clear()
        world.clock.pass_by(60)
        assert await world.oauth.rejected("x", ANN, header, "Bearer")
        assert await world.oauth.rejected("x", ANN, header, "Bearer")  # already renewed by the first call
        assert await call_whoami(server.url, await world.oauth.header("x", ANN) or "") == ANN
        assert server.request_counts["refresh_token"] == 1


async def test_server_that_rejects_new_tokens_is_not_asked_again_at_once(server: LoginServer, tmp_path: Path) -> None:
    async with open_oauth(tmp_path, build_client_credentials_entry(server)) as world:
        header = await world.oauth.header("x", ANN)
        assert not await world.oauth.rejected("x", ANN, header, "Bearer")
        assert server.request_counts["client_credentials"] == 1
        world.clock.pass_by(60)
        assert await world.oauth.rejected("x", ANN, header, "Bearer")
        assert server.request_counts["client_credentials"] == 2
        world.entries["x"] = build_entry(server)
        await world.log_in(server, ANN)
        header = await world.oauth.header("x", ANN)
        assert not await world.oauth.rejected("x", ANN, header, "Bearer")
        assert (await world.oauth.status("x", ANN)).state == "needs_login"


async def test_secret_is_sent_the_way_the_server_accepts(server: LoginServer, tmp_path: Path) -> None:
    server.wants_basic = True
    async with open_oauth(tmp_path, build_client_credentials_entry(server)) as world:
        header = await world.oauth.header("x", ANN) or ""
        assert await call_whoami(server.url, header) == "the robot"
        assert [sorted(form) for form in server.forms] == [
            ["client_id", "client_secret", "grant_type", "scope"],
            ["client_id", "grant_type", "scope"],
        ]
        world.clock.pass_by(3600)
        assert await world.oauth.header("x", ANN) != header
        assert server.request_counts["client_credentials"] == 3, "the way that worked is tried first"
    assert (await asyncio.to_thread(read_all_bytes, tmp_path, "mcp.key")).count(ROBOT_SECRET.encode()) == 0


async def test_token_endpoint_of_credentials_is_discovered(server: LoginServer, tmp_path: Path) -> None:
    async with open_oauth(tmp_path, build_entry(server, client_id=ROBOT, client_secret=ROBOT_SECRET)) as world:
        assert await call_whoami(server.url, await world.oauth.header("x", ANN) or "") == "the robot"
    (form,) = server.forms
    assert (form["resource"], form["scope"]) == (server.url, SCOPE)


async def test_missing_scope_leads_to_one_login_that_requests_it(server: LoginServer, tmp_path: Path) -> None:
    challenge = f'Bearer error="insufficient_scope", scope="{SCOPE} write"'
    async with open_oauth(tmp_path, build_entry(server)) as world:
        await world.log_in(server, ANN)
        header = await world.oauth.header("x", ANN)
        with pytest.raises(LoginRequired, match="log in again at the MCP server 'x', which requires the scope 'write'"):
            await world.oauth.lacks_scope("x", ANN, challenge, "write")
        status = await world.oauth.status("x", ANN)
        assert (status.state, status.scope) == ("needs_login", f"{SCOPE} write")
        assert await world.oauth.header("x", ANN) == header, "it is still good for the other tools"
        started = await world.oauth.start("x", ANN, LoginRedirect(CALLBACK))
        assert f"scope={SCOPE}+write&" in started.authorization_url
        assert (await world.oauth.start("x", BOB, LoginRedirect(CALLBACK))).authorization_url.count("write") == 0
        back = await follow_redirect(started.authorization_url)
        await world.oauth.finish(ANN, LoginCallback(back.params["state"], back.params["code"]))
        assert (await world.oauth.status("x", ANN)).state == "logged_in"
        with pytest.raises(McpLoginFailed, match="'x' refuses the request, although the login has requested"):
            await world.oauth.lacks_scope("x", ANN, challenge, "write")
        assert (await world.oauth.status("x", ANN)).state == "logged_in"


async def test_missing_scope_of_configured_credentials_names_the_setting(server: LoginServer, tmp_path: Path) -> None:
    async with open_oauth(tmp_path, build_client_credentials_entry(server)) as world:
        with pytest.raises(McpLoginFailed, match="'x' requires the scope 'write': add it to `scope` in `oauth`"):
            await world.oauth.lacks_scope("x", ANN, "Bearer", "write")
        world.entries["x"] = build_entry(server).model_copy(update={"headers": {"Authorization": "Bearer own"}})
        await world.oauth.lacks_scope("x", ANN, "Bearer", "write")  # nobody logs in there


async def test_session_ends_with_the_request_for_a_wider_scope(tmp_path: Path) -> None:
    def answer(request: Request) -> Response:
        headers = {"www-authenticate": 'Bearer error="insufficient_scope", scope="a b"'}
        return Response(status_code=403, headers=headers if request.url.path == "/mcp" else {})

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with serve_in_thread(Starlette(routes=[Route("/{path}", answer, methods=["GET", "POST"])]), listening):
            for path, problem in (("mcp", "which requires the scope 'a b'"), ("closed", "answered with 403")):
                entry = McpServerConfig.model_validate({"type": "http", "url": f"{url}/{path}"})
                async with open_oauth(tmp_path, entry) as world:
                    pool = SessionPool(SessionDependencies(start_nothing, world.oauth))
                    with pytest.raises(DeerFlowError, match=problem):
                        await pool.fetch_listing(ServerAddress("x", entry, "key", ANN, None))
                    await pool.aclose()


async def start_nothing(spec: ServiceSpec) -> Service:
    raise AssertionError


async def test_files_contain_no_secrets(server: LoginServer, tmp_path: Path) -> None:
    async with open_oauth(tmp_path, build_entry(server)) as world:
        await world.log_in(server, ANN)
        await world.oauth.start("x", BOB, LoginRedirect(CALLBACK))
        begun = [form["code_verifier"] for form in server.forms if "code_verifier" in form]
        clients = [client.client_secret for name, client in server.clients.items() if name != ROBOT]
        found = read_all_bytes(tmp_path, but_not="mcp.key")
    assert b"mcp_tokens" in found
    assert begun and all(clients)
    for secret in ("access-canary", "refresh-canary", *begun, *clients):
        assert (secret or "").encode() not in found
    assert stat.S_IMODE((tmp_path / "mcp.key").stat().st_mode) == 0o600


async def test_lost_key_requires_a_new_login(server: LoginServer, tmp_path: Path) -> None:
    async with open_oauth(tmp_path, build_entry(server)) as world:
        await world.log_in(server, ANN)
    (tmp_path / "mcp.key").unlink()
    async with open_oauth(tmp_path, build_entry(server)) as world:
        assert (await world.oauth.status("x", ANN)).state == "expired_key"
        with pytest.raises(LoginRequired):
            await world.oauth.header("x", ANN)
        await world.log_in(server, ANN)
        assert (await world.oauth.status("x", ANN)).state == "logged_in"
    (tmp_path / "mcp.key").write_bytes(b"half a key")
    async with open_oauth(tmp_path, build_entry(server)) as world:
        assert (await world.oauth.status("x", ANN)).state == "expired_key"
        with pytest.raises(ConfigError, match="not a key; restore it, or remove it"):
            await world.log_in(server, ANN)
    assert (tmp_path / "mcp.key").read_bytes() == b"half a key"
    async with open_oauth(tmp_path, build_client_credentials_entry(server), key="k" * 32) as world:
        assert await world.oauth.header("x", ANN) is not None
    async with open_oauth(tmp_path, build_client_credentials_entry(server), key="l" * 32) as world:
        assert await world.oauth.header("x", ANN) is not None
    with pytest.raises(ConfigError, match="DEER_FLOW_SECRET_KEY needs at least 32 characters"):
        TokenCipher(tmp_path / "mcp.key", "short")


async def test_state_is_valid_once_for_its_user_and_a_limited_time(server: LoginServer, tmp_path: Path) -> None:
    async with open_oauth(tmp_path, build_entry(server)) as world:
        back = await follow_redirect((await world.oauth.start("x", ANN, LoginRedirect(CALLBACK))).authorization_url)
        came = LoginCallback(back.params["state"], back.params["code"])
        with pytest.raises(McpLoginFailed, match="started by another user"):
            await world.oauth.finish(BOB, came)
        assert (await world.oauth.finish(ANN, came)).problem is None
        with pytest.raises(McpLoginFailed, match="already used"):
            await world.oauth.finish(ANN, came)
        late = await follow_redirect((await world.oauth.start("x", ANN, LoginRedirect(CALLBACK))).authorization_url)
        world.clock.pass_by(601)
        with pytest.raises(McpLoginFailed, match="login expired"):
            await world.oauth.finish(ANN, LoginCallback(late.params["state"], late.params["code"]))


async def test_denied_or_forged_redirect_does_not_log_in(server: LoginServer, tmp_path: Path) -> None:
    async with open_oauth(tmp_path, build_entry(server)) as world:
        server.is_denying = True
        back = await follow_redirect(
            (await world.oauth.start("x", ANN, LoginRedirect(CALLBACK, "/settings"))).authorization_url
        )
        ended = await world.oauth.finish(ANN, LoginCallback(back.params["state"], error=back.params["error"]))
        assert ended == LoginResult("x", "/settings", "127.0.0.1 denied the login: access_denied")
        server.is_denying = False
        back = await follow_redirect((await world.oauth.start("x", ANN, LoginRedirect(CALLBACK))).authorization_url)
        mixed = LoginCallback(back.params["state"], back.params["code"], issuer="https://evil.example")
        assert "does not come from" in ((await world.oauth.finish(ANN, mixed)).problem or "")
        back = await follow_redirect((await world.oauth.start("x", ANN, LoginRedirect(CALLBACK))).authorization_url)
        ended = await world.oauth.finish(ANN, LoginCallback(back.params["state"], "another code"))
        assert ended.problem == "127.0.0.1 refused: invalid_grant"
        assert server.request_counts["refresh_token"] == 0 and await world.store.load(ANN, "x") is None


async def test_changed_entry_invalidates_logins(server: LoginServer, tmp_path: Path) -> None:
    async with open_oauth(tmp_path, build_entry(server)) as world:
        await world.log_in(server, ANN)
        world.entries["x"] = build_entry(server, grant_type="authorization_code", scope="tools more")
        with pytest.raises(LoginRequired):
            await world.oauth.header("x", ANN)


async def test_error_about_wrong_credentials_contains_no_secrets(server: LoginServer, tmp_path: Path) -> None:
    token_url = server.url.replace("/mcp", "/token")
    wrong = build_entry(server, token_url=token_url, client_id=ROBOT, client_secret="wrong-secret-canary")
    async with open_oauth(tmp_path, wrong) as world:
        with pytest.raises(McpLoginFailed, match="refused: invalid_client: check `oauth` of 'x'") as raised:
            await world.oauth.header("x", ANN)
        assert "canary" not in str(raised.value)


async def test_private_addresses_have_to_be_allowed(server: LoginServer, tmp_path: Path) -> None:
    async with open_oauth(
        tmp_path, build_client_credentials_entry(server).model_copy(update={"allow_private_addresses": False})
    ) as world:
        with pytest.raises(McpLoginFailed, match="not on the public internet.*allow_private_addresses"):
            await world.oauth.header("x", ANN)
    plain = build_entry(server, token_url="http://login.example/token", client_id=ROBOT, client_secret=ROBOT_SECRET)
    async with open_oauth(tmp_path, plain) as world:
        with pytest.raises(McpLoginFailed, match="does not use https"):
            await world.oauth.header("x", ANN)
    assert not server.request_counts


async def test_refuses_login_at_servers_without_user_logins(server: LoginServer, tmp_path: Path) -> None:
    async with open_oauth(tmp_path, build_client_credentials_entry(server)) as world:
        with pytest.raises(InvalidRequest, match="has no user logins"):
            await world.oauth.start("x", ANN, LoginRedirect(CALLBACK))
        with pytest.raises(NotFound):
            await world.oauth.start("y", ANN, LoginRedirect(CALLBACK))
    command = McpServerConfig.model_validate({"command": "npx"})
    async with open_oauth(tmp_path, command) as world:
        assert await world.oauth.header("x", ANN) is None
        assert (await world.oauth.status("x", ANN)).kind == "none"


def read_all_bytes(folder: Path, but_not: str) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir() if file.name != but_not)
