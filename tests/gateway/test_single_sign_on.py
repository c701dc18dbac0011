"""Single sign-on at OpenID providers, as a browser goes through it."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from deerflow.accounts.logins import MAX_ADDRESS_FAILURES
from tests.gateway.account_server import ADMIN, AUTH, PASSWORD, USER, AccountServer, open_account_server, try_login
from tests.gateway.openid_provider import (
    CLIENT_SECRET,
    OpenIdProvider,
    begin,
    log_in_there,
    make_key,
    problem_of,
    run_provider,
    visit,
)


@asynccontextmanager
async def open_sso(
    home: Path, **settings: Any
) -> AsyncIterator[tuple[AccountServer, OpenIdProvider, httpx.AsyncClient]]:
    """Run a provider and a server with a first account; yield both and the browser of the administrator."""
    async with run_provider() as provider:
        users = {"sso": {"company": provider.config(**settings)}}
        async with open_account_server(home, users=users) as server:
            yield server, provider, await server.set_up()


async def test_the_names_of_providers_are_listed_for_the_login_page(tmp_path: Path) -> None:
    async with open_sso(tmp_path) as (server, _, _admin):
        shown = (await server.program().get(f"{AUTH}/providers")).json()
        assert shown == {"providers": [{"name": "company", "label": "Example Inc."}], "passkeys": True}


async def test_a_person_gets_an_account_at_the_first_login_and_the_same_one_later(tmp_path: Path) -> None:
    async with open_sso(tmp_path) as (server, provider, admin):
        http = server.browser()
        done = await log_in_there(http, next="/t/abc?x=1")
        assert done.headers["location"] == "/t/abc?x=1"
        me = (await http.get(f"{AUTH}/me")).json()
        assert (me["email"], me["system_role"]) == ("cat@example.com", "user")
        # Issuer and subject identify the person, whatever the address is later.
        provider.person["email"] = "cathy@example.com"
        again = server.browser()
        assert problem_of(await log_in_there(again)) == ""
        assert (await again.get(f"{AUTH}/me")).json()["id"] == me["id"]
        assert len((await admin.get(f"{AUTH}/users")).json()) == 2
        (identity,) = (await again.get(f"{AUTH}/identities")).json()
        assert (identity["email"], identity["issuer"]) == ("cathy@example.com", provider.url)


async def test_an_account_of_a_provider_has_no_password(tmp_path: Path) -> None:
    async with open_sso(tmp_path) as (server, _, _admin):
        http = server.browser()
        await log_in_there(http)
        for password in ("", "!", PASSWORD):
            answer = await try_login(server.browser(), "cat@example.com", password)
            assert answer.status_code in (401, 422)
        (identity,) = (await http.get(f"{AUTH}/identities")).json()
        removed = await http.delete(f"{AUTH}/identities/{identity['identity_id']}")
        assert (removed.status_code, removed.json()["error"]) == (409, "Conflict")


async def test_an_address_does_not_merge_accounts(tmp_path: Path) -> None:
    async with open_sso(tmp_path) as (server, provider, admin):
        await server.join(admin, "bob@example.com")
        for email in (ADMIN, USER, "BOB@Example.com"):
            provider.person |= {"email": email, "sub": f"other-{email}"}
            http = server.browser()
            assert problem_of(await log_in_there(http)) == "has-account"
            assert (await http.get(f"{AUTH}/me")).status_code == 401


async def begin_link(http: httpx.AsyncClient) -> str:
    started = await http.post(f"{AUTH}/oauth/company/link")
    assert started.status_code == 200, started.text
    return await visit(http, started.json()["url"])


async def test_a_person_who_is_logged_in_links_an_identity_with_the_same_address(tmp_path: Path) -> None:
    async with open_sso(tmp_path) as (server, provider, admin):
        bob = await server.join(admin)
        provider.person["email"] = USER
        done = await bob.get(await begin_link(bob))
        assert done.headers["location"] == "/account"
        (identity,) = (await bob.get(f"{AUTH}/identities")).json()
        http = server.browser()
        await log_in_there(http)
        assert (await http.get(f"{AUTH}/me")).json()["email"] == USER
        assert (await bob.delete(f"{AUTH}/identities/{identity['identity_id']}")).status_code == 204
        assert problem_of(await log_in_there(server.browser())) == "has-account"


async def test_identities_are_linked_with_the_same_verified_address_and_never_to_administrators(
    tmp_path: Path,
) -> None:
    async with open_sso(tmp_path) as (server, provider, admin):
        bob = await server.join(admin)
        provider.person["email"] = ADMIN
        assert problem_of(await admin.get(await begin_link(admin))) == "admin"
        assert problem_of(await bob.get(await begin_link(bob))) == "other-address"
        provider.person |= {"email": USER, "email_verified": False}
        assert problem_of(await bob.get(await begin_link(bob))) == "unverified"
        provider.person["email_verified"] = True
        # A link that Bob has begun, opened without his session.
        back = await begin_link(bob)
        await bob.post(f"{AUTH}/logout")
        assert problem_of(await bob.get(back)) == "expired"


async def test_an_identity_belongs_to_one_account(tmp_path: Path) -> None:
    async with open_sso(tmp_path) as (server, provider, admin):
        await log_in_there(server.browser())
        bob = await server.join(admin)
        provider.person["email"] = USER  # at the provider, the person has got the address of Bob
        assert problem_of(await bob.get(await begin_link(bob))) == "linked"


async def test_groups_make_administrators_and_take_it_back(tmp_path: Path) -> None:
    settings = {"admin_groups": ["ops"], "groups_claim": "realm_access.roles"}
    async with open_sso(tmp_path, **settings) as (server, provider, _admin):
        for roles, expected in ((["ops", "x"], "admin"), ([], "user"), ("ops", "admin"), ({"ops": 1}, "user")):
            provider.claims = {"realm_access": {"roles": roles}}
            http = server.browser()
            assert problem_of(await log_in_there(http)) == ""
            assert (await http.get(f"{AUTH}/me")).json()["system_role"] == expected


async def test_accounts_and_roles_of_a_provider_are_in_the_audit_log(tmp_path: Path) -> None:
    async with open_sso(tmp_path, admin_groups=["ops"]) as (server, provider, admin):
        await log_in_there(server.browser())
        provider.claims = {"groups": ["ops"]}
        http = server.browser()
        await log_in_there(http)
        person = (await http.get(f"{AUTH}/me")).json()["id"]
        entries = (await admin.get("/api/audit", params={"person": person})).json()["entries"]
        kinds = [each["kind"] for each in reversed(entries)]
        assert kinds == ["account.created", "account.login", "account.changed", "account.login"]
        assert entries[1]["details"] == {"role": "admin", "cause": "groups"}


async def list_failures(admin: httpx.AsyncClient) -> list[dict[str, Any]]:
    entries = (await admin.get("/api/audit", params={"kind": "account.login", "limit": 500})).json()["entries"]
    return [each for each in entries if each["outcome"] == "failure"]


async def test_failed_logins_are_in_the_audit_log_with_issuer_and_reason_and_without_secrets(tmp_path: Path) -> None:
    async with open_sso(tmp_path, allowed_groups=["staff"]) as (server, provider, admin):
        issued = list[str]()
        provider.answer_token = lambda tokens: issued.append(tokens["id_token"])
        provider.claims = {"groups": ["visitors"]}
        assert problem_of(await log_in_there(server.browser())) == "not-allowed"
        url, browser = f"{AUTH}/callback/company", server.browser()
        secrets = {"state": "hunter2-state", "code": "hunter2-code", "error": "hunter2 error"}
        assert problem_of(await browser.get(url, params=secrets)) == "expired"
        unknown, excluded = await list_failures(admin)
        assert [unknown["actor"], unknown["subject"], excluded["subject"]] == [None, None, None]
        assert [each["details"]["reason"] for each in (unknown, excluded)] == ["expired", "not-allowed"]
        expected = {"method": "single sign-on", "provider": "company", "issuer": provider.url}
        for entry in (unknown, excluded):
            assert expected.items() <= entry["details"].items()
            assert set(entry["details"]) == {*expected, "reason", "problem", "address"}
        written = f"{unknown}{excluded}"
        (token,) = issued
        assert all(secret not in written for secret in ("hunter2", CLIENT_SECRET, *token.split(".")))
        assert (await admin.get("/api/audit/verify")).json()["is_valid"] is True


async def test_an_error_that_anyone_can_write_is_not_recorded(tmp_path: Path) -> None:
    async with open_sso(tmp_path) as (server, _, admin):
        for error, shown in (("access_denied", "access_denied"), ("Bearer hunter2", "invalid")):
            browser = server.browser()
            given = parse_qs(urlsplit(await begin(browser)).query)
            parameters = {"state": given["state"][0], "iss": given["iss"][0], "error": error}
            answer = await browser.get(f"{AUTH}/callback/company", params=parameters)
            assert problem_of(answer) == ("denied" if shown == "access_denied" else "failed")
            newest, *_ = await list_failures(admin)
            assert newest["details"]["problem"] == f"the provider answered with the error {shown!r}"


async def test_failed_logins_of_one_network_do_not_fill_the_audit_log(tmp_path: Path) -> None:
    async with open_sso(tmp_path) as (server, _, admin):
        browser = server.browser()
        for number in range(MAX_ADDRESS_FAILURES + 5):
            await browser.get(f"{AUTH}/callback/company", params={"state": f"unknown-{number}"})
        assert len(await list_failures(admin)) == MAX_ADDRESS_FAILURES
        # Logins with a password are counted by themselves.
        assert (await try_login(server.browser(), ADMIN, PASSWORD)).status_code == 200


async def test_linked_and_removed_identities_are_in_the_audit_log(tmp_path: Path) -> None:
    async with open_sso(tmp_path) as (server, provider, admin):
        bob = await server.join(admin)
        provider.person["email"] = USER
        await bob.get(await begin_link(bob))
        (identity,) = (await bob.get(f"{AUTH}/identities")).json()
        await bob.delete(f"{AUTH}/identities/{identity['identity_id']}")
        removed, linked = (await admin.get("/api/audit", params={"limit": 2})).json()["entries"]
        assert [linked["kind"], removed["kind"]] == ["account.identity_linked", "account.identity_removed"]
        assert linked["details"] == removed["details"] == {"identity": identity["identity_id"]}


async def test_only_members_of_allowed_groups_log_in(tmp_path: Path) -> None:
    async with open_sso(tmp_path, allowed_groups=["staff"]) as (server, provider, _admin):
        for groups, expected in ((None, "not-allowed"), (["staffs"], "not-allowed"), (["staff"], "")):
            provider.claims = {"groups": groups}
            assert problem_of(await log_in_there(server.browser())) == expected


async def test_without_create_accounts_only_known_people_log_in(tmp_path: Path) -> None:
    async with open_sso(tmp_path, create_accounts=False) as (server, _, admin):
        assert problem_of(await log_in_there(server.browser())) == "not-allowed"
        assert len((await admin.get(f"{AUTH}/users")).json()) == 1


async def test_a_disabled_account_cannot_log_in(tmp_path: Path) -> None:
    async with open_sso(tmp_path) as (server, _, admin):
        http = server.browser()
        await log_in_there(http)
        user = (await http.get(f"{AUTH}/me")).json()["id"]
        await admin.patch(f"{AUTH}/users/{user}", json={"is_active": False})
        assert problem_of(await log_in_there(server.browser())) == "not-allowed"


async def test_a_provider_may_change_its_keys(tmp_path: Path) -> None:
    async with open_sso(tmp_path) as (server, provider, _admin):
        assert problem_of(await log_in_there(server.browser())) == ""
        old, provider.key = provider.key, make_key("two")
        provider.sign = lambda claims: provider.sign_with(provider.key, claims, kid="two")
        assert problem_of(await log_in_there(server.browser())) == ""
        provider.published = [old.as_dict(private=False)]
        assert problem_of(await log_in_there(server.browser())) == "failed"


async def test_an_address_may_come_from_the_user_info(tmp_path: Path) -> None:
    async with open_sso(tmp_path) as (server, provider, _admin):
        provider.claims = {"email": None, "email_verified": None}
        http = server.browser()
        assert problem_of(await log_in_there(http)) == ""
        assert (await http.get(f"{AUTH}/me")).json()["email"] == "cat@example.com"


async def test_two_logins_in_one_browser_do_not_disturb_each_other(tmp_path: Path) -> None:
    async with open_sso(tmp_path) as (server, _, _admin):
        http = server.browser()
        first, second = await begin(http), await begin(http)
        assert problem_of(await http.get(second)) == ""
        # The second login has ended with the cookie of the browser: the first one is begun again.
        assert problem_of(await http.get(first)) == "expired"


async def test_without_the_extra_the_page_says_that_the_login_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "joserfc.jwt", None)
    async with open_sso(tmp_path) as (server, _, _admin):
        answer = await server.browser().get(f"{AUTH}/oauth/company")
        assert answer.headers["location"] == "/login?problem=failed"
        assert "pip install 'deerflow[sso]'" in caplog.text


@pytest.mark.parametrize("name", ["other", "company/x"])
async def test_an_unknown_provider_is_not_found(tmp_path: Path, name: str) -> None:
    async with open_sso(tmp_path) as (server, _, _admin):
        assert (await server.browser().get(f"{AUTH}/oauth/{name}")).status_code == 404
