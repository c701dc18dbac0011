"""Attacks on logins, sessions, tokens, links and accounts. Each is refused, and what it asked for does not happen."""

import asyncio
import itertools
from collections import Counter
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from deerflow.accounts.logins import MAX_ADDRESS_FAILURES, MAX_FAILURES, MAX_WAITING, SLOTS, Passwords
from deerflow.accounts.model import new_secret
from tests.gateway.account_server import (
    ADMIN,
    AUTH,
    CSRF,
    LAX,
    PASSWORD,
    STRICT_TLS,
    USER,
    AccountServer,
    open_account_server,
    try_login,
)

HI = {"input": {"messages": [{"type": "human", "content": "Hi"}]}}
ME = f"{AUTH}/me"
WRONG = "not the password"


def status(answer: httpx.Response) -> tuple[int, str | None]:
    return answer.status_code, answer.json().get("error") if answer.status_code >= 400 else None


# Requests that other sites make a browser send


def forged_headers(url: str) -> dict[str, dict[str, str]]:
    origin, same = {"origin": url}, {"sec-fetch-site": "same-origin"}
    return {
        "no headers at all": {},
        "a form of another site": {"origin": "https://evil.example", "sec-fetch-site": "cross-site"},
        "another site, with the header": {"origin": "https://evil.example", **CSRF},
        "another port of this machine": {"origin": "http://127.0.0.1:1", "sec-fetch-site": "same-site", **CSRF},
        "a page without an origin": {"origin": "null", **CSRF},
        "an origin that contains ours": {"origin": f"{url}.evil.example", **CSRF},
        "the origin without the header": origin,
        "a fetch without the header": same,
        "the header without an origin": CSRF,
        "the header with another value": {**origin, "x-csrf-protection": "true"},
        "a site of the same domain": {"sec-fetch-site": "same-site", **CSRF},
        "a link that somebody follows": {"sec-fetch-site": "none", **CSRF},
    }


async def test_requests_of_other_sites_with_the_cookie_change_nothing(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        accepted = {}
        for name, headers in forged_headers(server.url).items():
            async with httpx.AsyncClient(base_url=server.url, cookies=ann.cookies, headers=headers) as forged:
                for method, path in (
                    ("POST", "/api/threads"),
                    ("DELETE", "/api/threads/x"),
                    ("POST", f"{AUTH}/tokens"),
                    ("POST", f"{AUTH}/logout"),
                ):
                    answer = await forged.request(method, path, json={"thread_id": "forged", "name": "t"})
                    if status(answer) != (403, "Forbidden"):
                        accepted[f"{name}: {method} {path}"] = answer.status_code
        assert accepted == {}
        assert (await ann.post("/api/threads/search", json={})).json() == []
        assert (await ann.get(f"{AUTH}/tokens")).json() == []


async def test_another_site_cannot_log_a_browser_in(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        await server.set_up()
        for headers in (
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {"origin": server.url, "sec-fetch-site": "cross-site"},
        ):
            async with httpx.AsyncClient(base_url=server.url, headers=headers) as http:
                answer = await try_login(http, ADMIN, PASSWORD)
                assert status(answer) == (403, "Forbidden") and "set-cookie" not in answer.headers


async def test_a_form_of_another_site_cannot_log_in(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        await server.set_up()
        form = {"email": ADMIN, "password": PASSWORD}
        answer = await server.program().post(f"{AUTH}/login/local", data=form)
        assert status(answer) == (415, "UnsupportedMediaType")


# Headers that a client cannot be believed


async def test_forwarded_headers_of_unknown_proxies_are_ignored(tmp_path: Path) -> None:
    async with open_account_server(tmp_path, server={"trusted_proxies": ["10.0.0.0/8"]}) as server:
        await server.set_up()
        http = server.browser("192.0.2.7")
        forged = {"x-forwarded-for": "10.1.1.1", "x-forwarded-proto": "https"}
        answer = await try_login(http, ADMIN, PASSWORD, headers=forged)
        assert LAX in answer.cookies and STRICT_TLS not in answer.cookies
        (_, session) = (await http.get(f"{AUTH}/sessions")).json()[::-1]
        assert session["address"] == "192.0.2.7"


@pytest.mark.slow
async def test_addresses_in_forwarded_headers_do_not_escape_the_limit(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        await server.set_up()
        http = server.browser("192.0.2.7")
        answers = [
            await try_login(http, f"n{i}@example.com", WRONG, headers={"x-forwarded-for": f"198.51.100.{i}"})
            for i in range(MAX_ADDRESS_FAILURES + 1)
        ]
        assert status(answers[-1]) == (429, "TooManyAttempts")


async def test_only_the_addresses_after_the_last_trusted_proxy_count(tmp_path: Path) -> None:
    async with open_account_server(tmp_path, server={"trusted_proxies": ["10.0.0.0/8"]}) as server:
        await server.set_up()
        http = server.browser("10.0.0.1")
        forged = {"x-forwarded-for": "203.0.113.9, 192.0.2.8, 10.0.0.2"}
        await try_login(http, ADMIN, PASSWORD, headers=forged)
        sessions = (await http.get(f"{AUTH}/sessions")).json()
        assert sessions[0]["address"] == "192.0.2.8"


async def test_cookies_over_tls_are_bound_to_the_host(tmp_path: Path) -> None:
    async with open_account_server(tmp_path, server={"trusted_proxies": ["10.0.0.1"]}) as server:
        await server.set_up()
        answer = await try_login(server.browser("10.0.0.1"), ADMIN, PASSWORD, headers={"x-forwarded-proto": "https"})
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith(f"{STRICT_TLS}=") and "Domain" not in cookie
        assert {"Secure", "HttpOnly", "Path=/", "SameSite=lax"} <= set(cookie.split("; "))


async def test_over_tls_a_cookie_without_the_prefix_is_not_a_session(tmp_path: Path) -> None:
    async with open_account_server(tmp_path, server={"trusted_proxies": ["10.0.0.1"]}) as server:
        ann = await server.set_up()
        planted = {"cookie": f"{LAX}={ann.cookies[LAX]}", "x-forwarded-proto": "https"}
        assert status(await server.browser("10.0.0.1").get(ME, headers=planted)) == (401, "Unauthorized")


async def test_the_host_header_is_in_no_link(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        for host in ("evil.example", "127.0.0.1.evil.example"):
            answer = await ann.post(f"{AUTH}/invitations", json={}, headers={"host": host, "origin": f"http://{host}"})
            assert answer.status_code == 403 and "path" not in answer.json()
        made = await ann.post(f"{AUTH}/invitations", json={})
        assert made.json()["path"].startswith("/invitation#")


# Tokens


async def test_secrets_that_are_no_tokens_are_refused(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        token, _ = await server.create_token(ann)
        session = ann.cookies[LAX]
        for name, headers in {
            "none": {},
            "empty": {"authorization": ""},
            "no scheme": {"authorization": token},
            "basic": {"authorization": f"Basic {token}"},
            "cut": {"authorization": f"Bearer {token[:-1]}"},
            "longer": {"authorization": f"Bearer {token}x"},
            "changed": {"authorization": f"Bearer {token[:-1]}{'a' if token[-1] != 'a' else 'b'}"},
            "capital letters": {"authorization": f"Bearer {token.upper()}"},
            "two tokens": {"authorization": f"Bearer {token} {token}"},
            "another": {"authorization": f"Bearer df_{new_secret()}"},
            "a session as a token": {"authorization": f"Bearer {session}"},
            "a session with the prefix": {"authorization": f"Bearer df_{session}"},
            "a token as a session": {"cookie": f"{LAX}={token}"},
            "a session with spaces": {"cookie": f"{LAX}= {session}x"},
            "none encoded": {"x-api-key": "null"},
            "a key of another service": {"x-api-key": "lsv2_pt_0123456789"},
            "very long": {"authorization": f"Bearer df_{'A' * 40_000}"},
            "percent sign": {"x-api-key": "df_%"},
        }.items():
            async with httpx.AsyncClient(base_url=server.url, headers=headers) as http:
                answer = await http.get(ME)
                assert status(answer) == (401, "Unauthorized"), name
                assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_two_credentials_are_refused_rather_than_chosen_from(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        bob = await server.join(ann)
        tokens = [(await server.create_token(each))[0] for each in (ann, bob)]
        http = server.program()
        for name in ("authorization", "x-api-key"):
            prefix = "Bearer " if name == "authorization" else ""
            answer = await http.get(ME, headers=[(name, f"{prefix}{token}") for token in tokens])
            assert answer.status_code == 401
        both = f"{LAX}={bob.cookies[LAX]}; {LAX}={ann.cookies[LAX]}"
        assert (await http.get(ME, headers={"cookie": both})).status_code == 401


async def test_an_invalid_token_does_not_fall_back_to_the_cookie(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        assert (await ann.get(ME, headers={"authorization": f"Bearer df_{new_secret()}"})).status_code == 401


async def test_tokens_in_the_address_are_ignored(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        token, _ = await server.create_token(await server.set_up())
        for name in ("token", "api_key", "access_token", "authorization"):
            assert (await server.program().get(ME, params={name: token})).status_code == 401


async def test_a_token_with_the_scope_read_changes_nothing(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        token, _ = await server.create_token(ann, "read")
        http = server.program(token)
        assert (await http.post("/api/threads/search", json={})).status_code == 200
        for method, path in (
            ("POST", "/api/threads"),
            ("POST", "/api/runs/wait"),
            ("PUT", "/api/store/items"),
            ("POST", "/mcp"),
            ("GET", "/api/threads/t/runs/r/stream?cancel_on_disconnect=1"),
            ("GET", "/api/threads/t/runs/r/join?cancel_on_disconnect=true"),
        ):
            assert status(await http.request(method, path, json={})) == (403, "Forbidden"), path


async def test_a_token_cannot_give_itself_more_rights(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        session = (await ann.get(ME)).json()["session_id"]
        for scope in ("read", "run", "admin"):
            token, token_id = await server.create_token(ann, scope)
            http = server.program(token)
            for method, path, body in (
                ("POST", "tokens", {"name": "more", "scope": "admin"}),
                ("DELETE", f"tokens/{token_id}", None),
                ("DELETE", f"sessions/{session}", None),
                ("POST", "change-password", {"current_password": PASSWORD, "new_password": PASSWORD}),
                ("POST", "logout-everywhere", None),
            ):
                answer = await http.request(method, f"{AUTH}/{path}", json=body)
                assert status(answer) == (403, "Forbidden"), (scope, path)
        run_token, _ = await server.create_token(ann, "run")
        assert (await server.program(run_token).get(f"{AUTH}/users")).status_code == 403


async def test_a_user_cannot_make_a_token_of_an_administrator(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        bob = await server.join(await server.set_up())
        for body in ({"name": "t", "scope": "admin"}, {"name": "t", "scope": "root"}, {"name": "t", "scope": ["read"]}):
            assert (await bob.post(f"{AUTH}/tokens", json=body)).status_code in (403, 422)


async def test_tokens_of_a_former_administrator_lose_their_rights(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        bob = await server.join(ann, role="admin")
        token, _ = await server.create_token(bob, "admin")
        program = server.program(token)
        assert (await program.get(f"{AUTH}/users")).status_code == 200
        await ann.patch(f"{AUTH}/users/{(await bob.get(ME)).json()['id']}", json={"role": "user"})
        assert (await program.get(f"{AUTH}/users")).status_code == 403
        assert (await bob.get(f"{AUTH}/users")).status_code == 403


async def test_tokens_and_sessions_of_others_cannot_be_ended(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        bob = await server.join(ann)
        token, token_id = await server.create_token(ann)
        session_id = (await ann.get(ME)).json()["session_id"]
        for path in (f"tokens/{token_id}", f"sessions/{session_id}"):
            assert status(await bob.delete(f"{AUTH}/{path}")) == (404, "NotFound")
        assert (await server.program(token).get(ME)).status_code == 200
        assert (await bob.get(f"{AUTH}/tokens")).json() == []


# Sessions


async def test_a_planted_session_is_replaced_at_the_login(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        planted = {LAX: new_secret()}
        http = server.browser()
        http.cookies.update(planted)
        answer = await try_login(http, ADMIN, PASSWORD)
        assert answer.cookies[LAX] != planted[LAX]
        async with httpx.AsyncClient(base_url=server.url, cookies=planted) as thief:
            assert (await thief.get(ME)).status_code == 401
        assert (await ann.get(ME)).status_code == 200


async def test_a_login_ends_the_session_that_the_browser_had(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        known = dict(ann.cookies)
        await try_login(ann, ADMIN, PASSWORD)
        async with httpx.AsyncClient(base_url=server.url, cookies=known) as thief:
            assert (await thief.get(ME)).status_code == 401


@pytest.mark.parametrize("way", ["logout", "logout-everywhere"])
async def test_a_copied_cookie_is_worthless_after_the_logout(tmp_path: Path, way: str) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        known = dict(ann.cookies)
        assert (await ann.post(f"{AUTH}/{way}")).status_code == 204
        async with httpx.AsyncClient(base_url=server.url, cookies=known) as thief:
            assert (await thief.get(ME)).status_code == 401


async def test_a_new_password_ends_the_sessions_of_a_thief(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        thief = await server.log_in()
        body = {"current_password": PASSWORD, "new_password": "another horse battery"}
        assert (await ann.post(f"{AUTH}/change-password", json=body)).status_code == 204
        assert (await ann.get(ME)).status_code == 200
        assert (await thief.get(ME)).status_code == 401
        assert status(await try_login(server.browser(), ADMIN, PASSWORD)) == (401, "LoginFailed")


async def test_a_thief_of_a_session_does_not_learn_the_password_by_changing_it(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        thief = await server.set_up()
        answers = [
            await thief.post(f"{AUTH}/change-password", json={"current_password": WRONG, "new_password": PASSWORD})
            for _ in range(MAX_FAILURES + 1)
        ]
        assert status(answers[0]) == (401, "LoginFailed") and status(answers[-1]) == (429, "TooManyAttempts")


def set_clocks(server: AccountServer, moment: datetime) -> None:
    authenticator = server.harness.resources.authenticator
    authenticator.now = lambda: moment
    authenticator.clock = moment.timestamp


async def test_sessions_end_when_they_are_idle_and_when_they_are_old(tmp_path: Path) -> None:
    async with open_account_server(tmp_path, users={"session_idle_hours": 1.0, "session_days": 1.0}) as server:
        ann = await server.set_up()
        start = datetime.now(UTC)
        steps = ((0.9, 200), (1.8, 200), (2.9, 401))
        for hours, expected in steps:
            set_clocks(server, start + timedelta(hours=hours))
            assert (await ann.get(ME)).status_code == expected, hours
        http = await server.log_in()
        for half_hours in range(1, 50):
            set_clocks(server, start + timedelta(hours=half_hours / 2))
            last = await http.get(ME)
        assert last.status_code == 401


async def test_the_cookie_cannot_be_read_by_scripts_and_answers_are_not_stored(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        await server.set_up()
        answer = await try_login(server.browser(), ADMIN, PASSWORD)
        assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(answer.headers["set-cookie"].split("; "))
        assert answer.headers["cache-control"] == "no-store"
        assert answer.cookies[LAX] not in answer.text and PASSWORD not in answer.text


# Guessing


async def guess(server: AccountServer, count: int, email: str = ADMIN, first: int = 0) -> list[int]:
    answers = [
        await try_login(server.browser(f"198.51.100.{first + i}"), email, f"{WRONG} {first + i}") for i in range(count)
    ]
    return [answer.status_code for answer in answers]


async def test_guesses_from_fifty_addresses_and_over_a_restart_are_limited(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        await server.set_up()
        before = await guess(server, 7)
    async with open_account_server(tmp_path) as server:
        after = await guess(server, 43, first=7)
        assert (before + after).count(401) == MAX_FAILURES and set(before + after) == {401, 429}
        answer = await try_login(server.browser("203.0.113.1"), ADMIN, PASSWORD)
        assert status(answer) == (429, "TooManyAttempts") and 0 < int(answer.headers["retry-after"]) <= 900


async def test_guesses_at_the_same_time_are_limited(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        await server.set_up()
        tries = [try_login(server.browser(f"198.51.100.{i}"), ADMIN, f"{WRONG} {i}") for i in range(30)]
        found = [answer.status_code for answer in await asyncio.gather(*tries)]
        assert found.count(401) <= MAX_FAILURES and set(found) == {401, 429}


async def test_spellings_of_an_address_share_one_limit(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        await server.set_up()
        spellings = [ADMIN, ADMIN.upper(), f" {ADMIN}", "Ann@Example.COM", "ａnn@example.com"]
        found = [
            (await try_login(server.browser(f"192.0.2.{i}"), spellings[i % 5], WRONG)).status_code for i in range(12)
        ]
        assert found == [401] * MAX_FAILURES + [429] * 2


@pytest.mark.slow
async def test_one_network_of_ipv6_is_one_address(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        await server.set_up()
        found = [
            (await try_login(server.browser(f"2001:db8::{i:x}"), f"n{i}@example.com", WRONG)).status_code
            for i in range(MAX_ADDRESS_FAILURES + 1)
        ]
        assert found[-1] == 429 and found.count(401) == MAX_ADDRESS_FAILURES


async def test_answers_do_not_tell_which_accounts_exist(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        bob = await server.join(ann)
        await ann.patch(f"{AUTH}/users/{(await bob.get(ME)).json()['id']}", json={"is_active": False})
        answers = [
            await try_login(server.browser(), email, password)
            for email, password in (
                (ADMIN, WRONG),
                ("none@example.com", WRONG),
                (USER, PASSWORD),
                ("no address", WRONG),
            )
        ]
        assert len({(answer.status_code, answer.text) for answer in answers}) == 1


@pytest.mark.slow
async def test_many_logins_at_once_do_not_exhaust_the_server(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        await server.set_up()
        clients = [server.browser(f"198.51.100.{i}") for i in range(100)]
        async with AsyncExitStack() as stack:
            for _ in range(SLOTS):  # however fast the machine is, no login ends before all have begun
                await stack.enter_async_context(server.harness.resources.logins.passwords._free)
            tries = [try_login(http, f"n{i}@example.com", WRONG) for i, http in enumerate(clients)]
            tasks = [asyncio.create_task(each) for each in tries]
            for done in itertools.islice(asyncio.as_completed(tasks), len(tasks) - MAX_WAITING):
                answer = await done
                assert answer.status_code == 429 and int(answer.headers["retry-after"]) > 0
            assert (await server.program().get("/health")).status_code == 200
        answers = [await task for task in tasks]
        assert Counter(answer.status_code for answer in answers) == {429: 80, 401: MAX_WAITING}


async def test_no_more_than_two_passwords_are_hashed_at_a_time() -> None:
    passwords = Passwords(max_waiting=3)
    tries = await asyncio.gather(*(passwords.verify(None, WRONG) for _ in range(9)), return_exceptions=True)
    assert [type(each).__name__ for each in tries].count("TooManyAttempts") == 4


@pytest.mark.parametrize("password", ["", "short", "x" * 1025, "x" * 300_000])
async def test_passwords_of_unsuitable_length_are_refused(tmp_path: Path, password: str) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        token = await server.invite(ann)
        body = {"token": token, "email": USER, "password": password}
        assert (await server.browser().post(f"{AUTH}/accept-invitation", json=body)).status_code == 422
        assert (await ann.get(f"{AUTH}/invitations")).json() != []


# Set-up, invitations and resets


async def test_of_two_who_set_up_at_once_one_becomes_the_administrator(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        accounts = server.harness.resources.accounts
        paths = [await accounts.create_setup_path() for _ in range(2)]
        tokens = [paths[0], paths[0], paths[1], paths[1]]
        bodies = [
            {"token": path.partition("#")[2], "email": f"p{i}@example.com", "password": PASSWORD}
            for i, path in enumerate(tokens)
        ]
        answers = await asyncio.gather(*(server.browser().post(f"{AUTH}/initialize", json=body) for body in bodies))
        assert sorted(answer.status_code for answer in answers)[0] == 200
        assert [answer.status_code for answer in answers].count(200) == 1
        assert len(await accounts.list()) == 1


async def test_set_up_needs_the_link_and_works_once(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        body: dict[str, Any] = {"email": "eve@example.com", "password": PASSWORD}
        http = server.browser()
        for token in (new_secret(), "x", "' OR 1=1 --"):
            assert (await http.post(f"{AUTH}/initialize", json={**body, "token": token})).status_code == 404
        assert (await http.post(f"{AUTH}/initialize", json=body)).status_code == 422
        assert status(await http.post(f"{AUTH}/setup-link")) == (401, "Unauthorized")
        path = await server.harness.resources.accounts.create_setup_path()
        used = {**body, "token": path.partition("#")[2]}
        assert (await http.post(f"{AUTH}/initialize", json=used)).status_code == 200
        again = await server.browser().post(f"{AUTH}/initialize", json={**used, "email": "mallory@example.com"})
        assert again.status_code == 404
        assert (await http.post(f"{AUTH}/setup-link")).status_code == 409


async def test_a_set_up_link_ends_with_the_server(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        path = await server.harness.resources.accounts.create_setup_path()
    async with open_account_server(tmp_path) as server:
        body = {"token": path.partition("#")[2], "email": ADMIN, "password": PASSWORD}
        assert (await server.browser().post(f"{AUTH}/initialize", json=body)).status_code == 404


async def test_an_invitation_is_good_for_one_account(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        token = await server.invite(ann, None)
        bodies = [{"token": token, "email": f"p{i}@example.com", "password": PASSWORD} for i in range(4)]
        tries = [server.browser().post(f"{AUTH}/accept-invitation", json=body) for body in bodies]
        found = sorted(answer.status_code for answer in await asyncio.gather(*tries))
        assert found == [200, 404, 404, 404]
        replayed = await server.browser().post(
            f"{AUTH}/accept-invitation", json={**bodies[0], "email": "q@example.com"}
        )
        assert replayed.status_code == 404
        assert len((await ann.get(f"{AUTH}/users")).json()) == 2


async def test_an_invitation_does_not_fit_another_address_role_or_account(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        token = await server.invite(ann)
        http = server.browser()
        body = {"token": token, "email": USER, "password": PASSWORD}
        for change in ({"email": "eve@example.com"}, {"email": ADMIN}):
            assert (await http.post(f"{AUTH}/accept-invitation", json={**body, **change})).status_code == 404
        reset = {"token": token, "password": PASSWORD}
        assert (await http.post(f"{AUTH}/reset-password", json=reset)).status_code == 404
        more = {**body, "role": "admin", "user_id": "local", "is_admin": True}
        made = await http.post(f"{AUTH}/accept-invitation", json=more)
        assert made.json()["user"]["system_role"] == "user" and made.json()["user"]["id"] != "local"


async def test_an_open_invitation_does_not_take_over_an_account(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        token = await server.invite(ann, None)
        body = {"token": token, "email": ADMIN.upper(), "password": "the attacker's"}
        assert status(await server.browser().post(f"{AUTH}/accept-invitation", json=body)) == (409, "Conflict")
        assert (await try_login(server.browser(), ADMIN, "the attacker's")).status_code == 401


async def test_expired_and_withdrawn_links_are_refused(tmp_path: Path) -> None:
    async with open_account_server(tmp_path, users={"link_hours": 1e-9}) as server:
        ann = await server.set_up()
        expired = await server.invite(ann)
        assert (await server.browser().post(f"{AUTH}/check-link", json={"token": expired})).status_code == 404
    async with open_account_server(tmp_path) as server:
        ann = await server.log_in()
        token = await server.invite(ann)
        (open_one,) = (await ann.get(f"{AUTH}/invitations")).json()
        assert (await ann.delete(f"{AUTH}/invitations/{open_one['invitation_id']}")).status_code == 204
        body = {"token": token, "email": USER, "password": PASSWORD}
        assert (await server.browser().post(f"{AUTH}/accept-invitation", json=body)).status_code == 404


async def test_a_reset_link_works_once_and_ends_all_sessions(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        bob = await server.join(ann)
        user_id = (await bob.get(ME)).json()["id"]
        links = [(await ann.post(f"{AUTH}/users/{user_id}/reset-link")).json()["path"] for _ in range(2)]
        old, new = (path.partition("#")[2] for path in links)
        http = server.browser()
        body = {"token": old, "password": "a new password"}
        assert (await http.post(f"{AUTH}/reset-password", json=body)).status_code == 404
        assert (await http.post(f"{AUTH}/reset-password", json={**body, "token": new})).status_code == 200
        assert (await bob.get(ME)).status_code == 401
        assert (await http.post(f"{AUTH}/reset-password", json={**body, "token": new})).status_code == 404
        assert (await try_login(server.browser(), USER, PASSWORD)).status_code == 401


# Roles


async def test_users_cannot_manage_accounts(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        bob = await server.join(await server.set_up())
        me = (await bob.get(ME)).json()["id"]
        for method, path, body in (
            ("GET", "users", None),
            ("PATCH", f"users/{me}", {"role": "admin"}),
            ("PATCH", "users/local", {"is_active": False}),
            ("DELETE", "users/local", None),
            ("POST", "users/local/reset-link", None),
            ("POST", "invitations", {"role": "admin"}),
            ("GET", "invitations", None),
            ("POST", "setup-link", None),
        ):
            assert status(await bob.request(method, f"{AUTH}/{path}", json=body)) == (403, "Forbidden"), path
        assert (await bob.get(ME)).json()["system_role"] == "user"


async def test_the_last_administrator_stays(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        for body in ({"role": "user"}, {"is_active": False}):
            assert status(await ann.patch(f"{AUTH}/users/local", json=body)) == (409, "Conflict")
        assert status(await ann.delete(f"{AUTH}/users/local")) == (409, "Conflict")


async def test_of_two_administrators_who_demote_each_other_one_stays(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        bob = await server.join(ann, role="admin")
        bobs = (await bob.get(ME)).json()["id"]
        await asyncio.gather(
            ann.patch(f"{AUTH}/users/{bobs}", json={"role": "user"}),
            bob.patch(f"{AUTH}/users/local", json={"is_active": False}),
        )
        accounts = await server.harness.resources.accounts.list()
        assert [each.is_admin and each.is_active for each in accounts].count(True) == 1


async def test_a_deactivated_person_is_out_at_once(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        bob = await server.join(ann)
        token, _ = await server.create_token(bob)
        user_id = (await bob.get(ME)).json()["id"]
        await ann.patch(f"{AUTH}/users/{user_id}", json={"is_active": False})
        assert (await bob.get(ME)).status_code == 401
        assert (await server.program(token).get(ME)).status_code == 401
        assert (await try_login(server.browser(), USER, PASSWORD)).status_code == 401


# Ways around the login


async def test_odd_spellings_of_paths_do_not_get_around_the_login(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        await ann.post("/api/threads", json={"thread_id": "secret-thread"})
        http = server.program()
        for path in (
            "/api//threads/secret-thread",
            "//api/threads/secret-thread",
            "/API/threads/secret-thread",
            "/api/shared/../threads/secret-thread",
            "/api/shared/%2e%2e/threads/secret-thread",
            "/api/threads/secret-thread/",
            "/api/threads/secret-thread;/api/shared/x",
            "/health/../api/threads/secret-thread",
            "/api/langgraph/threads/secret-thread",
            "/assets/../api/threads/secret-thread",
            "/%61pi/threads/secret-thread",
        ):
            answer = await http.get(path)
            assert "created_at" not in answer.text, path
        for method in ("HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE"):
            answer = await http.request(method, "/api/threads/secret-thread")
            assert answer.status_code in (401, 405), method
        overridden = await http.get("/api/threads/secret-thread", headers={"x-original-url": "/health"})
        assert overridden.status_code == 401


async def test_the_documents_of_the_api_and_the_figures_need_a_login(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        bob = await server.join(ann)
        for path in ("/api/openapi.json", "/api/docs", "/metrics"):
            assert (await server.program().get(path)).status_code == 401
        assert (await bob.get("/metrics")).status_code == 403
        assert (await ann.get("/metrics")).status_code == 200


async def test_a_login_is_required_as_soon_as_there_is_an_account(tmp_path: Path) -> None:
    async with open_account_server(tmp_path, requires_login=False) as server:
        local = server.program()
        assert (await local.get("/api/threads/x")).status_code == 404
        await server.set_up()
        assert (await local.get("/api/threads/x")).status_code == 401


async def test_a_site_whose_name_resolves_to_this_machine_reaches_nothing(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        for host in ("evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "[::1].evil", "local\thost", ""):
            own = {"host": host, "origin": f"http://{host}", "sec-fetch-site": "same-origin"}
            for method, path in (("GET", ME), ("POST", "/api/threads"), ("POST", f"{AUTH}/login/local")):
                try:
                    answer = await ann.request(method, path, json={"email": ADMIN, "password": PASSWORD}, headers=own)
                except httpx.LocalProtocolError:
                    continue  # the client does not send such a header
                assert answer.status_code in (400, 403) and "set-cookie" not in answer.headers, (host, path)


async def test_no_answer_sends_a_browser_to_another_site(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        for path in (
            "//evil.example",
            "//evil.example/",
            "/\\evil.example/",
            "/api//evil.example/",
            "/https://evil.example/",
            "/api/threads//evil.example",
            "/login?next=https://evil.example",
            "/login?redirect=//evil.example",
            "/api/mcp/oauth/callback?code=x&state=x&redirect_uri=https://evil.example",
        ):
            for headers in ({}, {"x-forwarded-host": "evil.example", "forwarded": "host=evil.example"}):
                url = httpx.URL(server.url).copy_with(raw_path=path.encode())
                answer = await ann.get(url, headers=headers, follow_redirects=False)
                assert "evil.example" not in answer.headers.get("location", ""), path
                assert "refresh" not in answer.headers, path


async def test_links_and_addresses_that_others_open_change_nothing(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        for path in ("logout", "logout-everywhere", "login/local", "setup-link", "tokens?name=x&scope=admin"):
            await ann.get(f"{AUTH}/{path}", headers={"sec-fetch-site": "none"})
        overrides = {"x-http-method-override": "DELETE", "x-method-override": "DELETE", "x-http-method": "DELETE"}
        await ann.get(f"{AUTH}/users/local?_method=DELETE", headers=overrides)
        assert (await ann.get(ME)).status_code == 200
        assert (await ann.get(f"{AUTH}/tokens")).json() == []


async def test_a_cookie_of_another_path_or_domain_is_not_taken_for_the_session(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        ann = await server.set_up()
        secret = ann.cookies[LAX]
        for cookie in (f"{LAX.upper()}={secret}", f"{LAX}[]={secret}", f'{LAX}="{secret}"', f"x={LAX}={secret}"):
            assert (await server.program().get(ME, headers={"cookie": cookie})).status_code == 401, cookie


async def test_a_forged_length_or_encoding_of_a_login_is_refused(tmp_path: Path) -> None:
    async with open_account_server(tmp_path) as server:
        await server.set_up()
        http = server.browser()
        for body in (
            {"email": {"$ne": ""}, "password": {"$ne": ""}},
            {"email": [ADMIN], "password": [PASSWORD]},
            {"email": ADMIN, "password": None},
            {"email": f"{ADMIN}\0", "password": PASSWORD},
            {"email": ADMIN, "password": "x" * 100_000},
            {"email": "' OR 1=1 --", "password": PASSWORD},
        ):
            answer = await http.post(f"{AUTH}/login/local", json=body)
            assert answer.status_code in (401, 422) and "set-cookie" not in answer.headers, body
        text, plain = f'{{"email": "{ADMIN}", "password": "{PASSWORD}"}}', {"content-type": "text/plain"}
        assert (await http.post(f"{AUTH}/login/local", content=text, headers=plain)).status_code == 415
