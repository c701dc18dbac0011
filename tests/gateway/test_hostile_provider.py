"""Hostile answers of OpenID providers, and of browsers that return from them. None of them logs anybody in."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from joserfc import jwk, jwt
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from tests.gateway.account_server import AUTH, AccountServer, open_account_server
from tests.gateway.openid_provider import (
    CLIENT,
    CLIENT_SECRET,
    OpenIdProvider,
    begin,
    encode_unsigned,
    log_in_there,
    make_key,
    problem_of,
    run_provider,
)

Fault = Callable[[OpenIdProvider], None]


@asynccontextmanager
async def open_hostile(
    home: Path, **settings: Any
) -> AsyncIterator[tuple[AccountServer, OpenIdProvider, httpx.AsyncClient]]:
    async with run_provider() as provider:
        users = {"sso": {"company": provider.config(**settings)}}
        async with open_account_server(home, users=users) as server:
            yield server, provider, await server.set_up()


def claim(**changed: Any) -> Fault:
    return lambda provider: provider.claims.update(changed)


def sign(make: Callable[[OpenIdProvider, dict[str, Any]], str]) -> Fault:
    def apply(provider: OpenIdProvider) -> None:
        provider.sign = lambda claims: make(provider, claims)

    return apply


def respond(answer: Callable[[dict[str, Any]], Response | None]) -> Fault:
    return lambda provider: setattr(provider, "answer_token", answer)


def sign_shared(secret: str) -> Fault:
    key = jwk.OctKey.import_key(secret)
    return sign(lambda _, claims: jwt.encode({"alg": "HS256", "kid": "one"}, claims, key, algorithms=["HS256"]))


def sign_with_public_key(provider: OpenIdProvider, claims: dict[str, Any]) -> str:
    key = jwk.OctKey.import_key(provider.key.as_pem(private=False).hex())
    return jwt.encode({"alg": "HS256", "kid": "one"}, claims, key, algorithms=["HS256"])


def publish_shared_key(provider: OpenIdProvider) -> None:
    key = jwk.OctKey.generate_key(256, {"kid": "shared", "use": "sig", "alg": "HS256"})
    provider.published = [key.as_dict(private=True)]
    provider.sign = lambda claims: jwt.encode({"alg": "HS256", "kid": "shared"}, claims, key, algorithms=["HS256"])


def damage(_: OpenIdProvider, claims: dict[str, Any]) -> str:
    head, body, signature = OpenIdProvider.sign_with(make_key("one"), claims).split(".")
    return f"{head}.{body[:-4]}AAAA.{signature}"


def replace_payload(provider: OpenIdProvider, claims: dict[str, Any]) -> str:
    signed = provider.sign_with(provider.key, {**claims, "sub": "me"})
    return ".".join([signed.split(".")[0], encode_unsigned(claims).split(".")[1], signed.split(".")[2]])


NOW = time.time()
ANOTHER_KEY = make_key("one")
ANSWERS: dict[str, Fault] = {
    "algorithm none": sign(lambda _, claims: encode_unsigned(claims)),
    "algorithm none with a signature": sign(lambda _, claims: encode_unsigned(claims, b"x")),
    "signed with the client secret": sign_shared(CLIENT_SECRET),
    "signed with the public key as a secret": sign(sign_with_public_key),
    "a shared key among the published ones": publish_shared_key,
    "signed with an unknown key of the same id": sign(lambda _, claims: OpenIdProvider.sign_with(ANOTHER_KEY, claims)),
    "an unknown key id": sign(lambda provider, claims: provider.sign_with(provider.key, claims, kid="other")),
    "other claims under a signature": sign(replace_payload),
    "a damaged token": sign(damage),
    "no token at all": sign(lambda _, claims: "x"),
    "wrong nonce": claim(nonce="other"),
    "no nonce": claim(nonce=None),
    "another audience": claim(aud="somebody-else"),
    "several audiences and no authorized party": claim(aud=[CLIENT, "somebody-else"]),
    "another authorized party": claim(aud=[CLIENT, "x"], azp="x"),
    "an empty audience": claim(aud=[]),
    "another issuer": claim(iss="https://accounts.example.com"),
    "the issuer with a slash": lambda provider: provider.claims.update(iss=f"{provider.url}/"),
    "expired": claim(exp=NOW - 3600),
    "no expiry": claim(exp=None),
    "expiry as text": claim(exp="9999999999"),
    "issued in the future": claim(iat=NOW + 3600),
    "not valid yet": claim(nbf=NOW + 3600),
    "no subject": claim(sub=None),
    "an empty subject": claim(sub=""),
    "a number as subject": claim(sub=7),
    "a long subject": claim(sub="x" * 300),
    "an unverified address": claim(email_verified=False),
    "no word on the address": claim(email_verified=None),
    "verified as text": claim(email_verified="true"),
    "an address of another domain": claim(email="eve@evil.example"),
    "a domain that ends alike": claim(email="eve@evilexample.com"),
    "a subdomain": claim(email="eve@x.example.com"),
    "two domains": claim(email="eve@example.com@evil.example"),
    "the user info of another person": lambda provider: (
        provider.claims.update(email=None),
        setattr(provider, "user_info", {"sub": "other", "email": "eve@example.com", "email_verified": True}),
    )[0],
    "an error of the token endpoint": respond(lambda _: JSONResponse({"error": "invalid_grant"}, 400)),
    "a failing token endpoint": respond(lambda _: JSONResponse({}, 500)),
    "a page instead of tokens": respond(lambda _: HTMLResponse("<h1>Log in</h1>")),
    "tokens in a redirect": respond(lambda tokens: RedirectResponse("https://evil.example/token", 307)),
    "tokens without an ID token": respond(lambda tokens: JSONResponse({**tokens, "id_token": None})),
    "a huge response": respond(lambda tokens: JSONResponse({"x": "x" * 2_000_000, **tokens})),
    "a huge token": claim(x="x" * 100_000),
    "keys that are no list": lambda provider: setattr(provider, "published", {"kty": "EC"}),
    "damaged keys": lambda provider: setattr(provider, "published", [{"kty": "EC", "kid": "one"}, 7]),
    "too many keys": lambda provider: setattr(provider, "published", [{"kty": "EC", "kid": "one"}] * 60),
    "a private key": lambda provider: setattr(provider, "published", [provider.key.as_dict(private=True)]),
    "the name of another issuer in the response": lambda provider: provider.response.update(iss="https://x.example"),
    "no issuer in the response, as it was promised": lambda provider: provider.response.update(iss=None),
    "an error and a code": lambda provider: provider.response.update(error="server_error"),
    "no code": lambda provider: provider.response.update(code=None),
    "an unknown code": lambda provider: provider.response.update(code="guessed"),
}


async def test_hostile_answers_do_not_open_a_session(tmp_path: Path) -> None:
    passed: dict[str, str] = {}
    async with open_hostile(tmp_path) as (server, provider, admin):
        for name, fault in ANSWERS.items():
            provider.recover()
            fault(provider)
            http = server.browser()
            answer = await log_in_there(http)
            if not problem_of(answer) or (await http.get(f"{AUTH}/me")).status_code != 401:
                passed[name] = answer.headers["location"]
        assert len((await admin.get(f"{AUTH}/users")).json()) == 1
        provider.recover()
        assert problem_of(await log_in_there(server.browser())) == ""
    assert passed == {}
    assert len(ANSWERS) >= 12


def with_parameters(url: str, **changed: str) -> str:
    parts = urlsplit(url)
    given = {name: values[0] for name, values in parse_qs(parts.query).items()}
    return parts._replace(query=urlencode({**given, **changed})).geturl()


async def test_a_response_counts_once(tmp_path: Path) -> None:
    async with open_hostile(tmp_path) as (server, _, _admin):
        http = server.browser()
        back = await begin(http)
        cookies = dict(http.cookies)
        assert problem_of(await http.get(back)) == ""
        other = server.browser()
        other.cookies.update(cookies)
        assert problem_of(await other.get(back)) == "expired"
        assert (await other.get(f"{AUTH}/me")).status_code == 401


async def test_a_response_counts_in_the_browser_that_asked(tmp_path: Path) -> None:
    async with open_hostile(tmp_path) as (server, _, _admin):
        attacker, victim = server.browser(), server.browser()
        back = await begin(attacker)
        assert problem_of(await victim.get(back)) == "expired"
        await begin(victim)  # the victim has a login of its own under way
        back = await begin(attacker)
        assert problem_of(await victim.get(back)) == "expired"
        assert (await victim.get(f"{AUTH}/me")).status_code == 401


@pytest.mark.parametrize("state", ["", "x", "A" * 43])
async def test_an_unknown_state_is_refused(tmp_path: Path, state: str) -> None:
    async with open_hostile(tmp_path) as (server, _, _admin):
        http = server.browser()
        back = await begin(http)
        assert problem_of(await http.get(with_parameters(back, state=state))) == "expired"
        assert problem_of(await http.get(back)) == ""


async def test_a_login_takes_ten_minutes_at_most(tmp_path: Path) -> None:
    async with open_hostile(tmp_path) as (server, _, _admin):
        http = server.browser()
        back = await begin(http)
        resources = server.harness.resources
        later = replace(resources.single_sign_on, now=lambda: datetime.now(UTC) + timedelta(minutes=11))
        vars(resources)["single_sign_on"] = later
        assert problem_of(await http.get(back)) == "expired"


async def test_a_code_of_one_provider_is_not_sent_to_another(tmp_path: Path) -> None:
    async with run_provider() as honest, run_provider() as evil:
        users = {"sso": {"honest": honest.config(), "evil": evil.config()}}
        async with open_account_server(tmp_path, users=users) as server:
            await server.set_up()
            http = server.browser()
            # The victim wants to log in at `evil`, which sends it to `honest` with the state of its own login.
            started = (await http.get(f"{AUTH}/oauth/evil")).headers["location"]
            asked = {name: values[0] for name, values in parse_qs(urlsplit(started).query).items()}
            sent = await http.get(f"{honest.url}/authorize?{urlencode(asked)}")
            received = len(evil.codes)
            assert problem_of(await http.get(sent.headers["location"])) == "failed"
            assert (received, len(honest.codes)) == (0, 1)
            # The same with the callback of the honest one.
            back = await begin(http, "evil")
            assert problem_of(await http.get(back.replace("/callback/evil", "/callback/honest"))) == "failed"
            assert (await http.get(f"{AUTH}/me")).status_code == 401


async def test_metadata_that_cannot_be_trusted_is_not_used(tmp_path: Path) -> None:
    used: dict[str, str] = {}
    async with open_hostile(tmp_path) as (server, provider, _admin):
        for changed in (
            {"issuer": "https://accounts.example.com"},
            {"issuer": f"{provider.url}/"},
            {"token_endpoint": "http://evil.example/token"},
            {"jwks_uri": "file:///etc/passwd"},
            {"jwks_uri": "http://user@127.0.0.1/keys"},
            {"authorization_endpoint": "javascript:alert(1)"},
            {"authorization_endpoint": None},
            {"token_endpoint": 7},
        ):
            provider.metadata = changed
            answer = await server.browser().get(f"{AUTH}/oauth/company")
            if answer.headers["location"] != "/login?problem=failed":
                used[str(changed)] = answer.headers["location"]
    assert used == {}


async def test_only_the_issuer_may_be_in_a_private_network(tmp_path: Path) -> None:
    async with open_hostile(tmp_path) as (server, provider, _admin):
        provider.metadata = {"token_endpoint": "https://169.254.169.254/latest/meta-data"}
        assert problem_of(await log_in_there(server.browser())) == "failed"
        provider.metadata = {"jwks_uri": provider.url.replace("127.0.0.1", "localhost") + "/keys"}
        assert problem_of(await log_in_there(server.browser())) == "failed"


async def test_a_provider_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    async with open_hostile(tmp_path) as (server, provider, _admin):
        http = server.browser()
        back = await begin(http)
        provider.is_stalled = True
        resources = server.harness.resources
        vars(resources)["single_sign_on"] = replace(resources.single_sign_on, timeout_s=0.2)
        async with asyncio.timeout(10):
            assert problem_of(await http.get(back)) == "failed"


@pytest.mark.parametrize(
    "path",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "\\\\evil.example",
        "javascript:alert(1)",
        "evil.example",
        "/x\r\nSet-Cookie: a=b",
        "/\t/evil.example",
        "/api/threads",
        " /",
        "/" + "x" * 600,
    ],
)
async def test_the_browser_is_never_sent_to_another_site(tmp_path: Path, path: str) -> None:
    async with open_hostile(tmp_path) as (server, _, _admin):
        done = await log_in_there(server.browser(), next=path)
        assert done.headers["location"] == "/" and "a" not in done.cookies


async def test_other_sites_cannot_begin_a_login_and_may_only_navigate_to_its_end(tmp_path: Path) -> None:
    async with open_hostile(tmp_path) as (server, _, _admin):
        http = server.program()
        cross = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
        assert (await http.get(f"{AUTH}/oauth/company", headers=cross)).status_code == 403
        back = await begin(http)
        framed = {**cross, "sec-fetch-dest": "iframe"}
        assert (await http.get(back, headers=framed)).status_code == 403
        assert problem_of(await http.get(back, headers=cross)) == ""


async def test_another_site_cannot_link_an_identity(tmp_path: Path) -> None:
    async with open_hostile(tmp_path) as (server, _, admin):
        async with httpx.AsyncClient(base_url=server.url, cookies=admin.cookies) as forged:
            answer = await forged.post(f"{AUTH}/oauth/company/link", headers={"origin": "https://evil.example"})
        assert answer.status_code == 403
        token, _id = await server.create_token(admin)
        assert (await server.program(token).post(f"{AUTH}/oauth/company/link")).status_code == 403


async def test_logins_that_begin_and_do_not_end_are_limited(tmp_path: Path) -> None:
    async with open_hostile(tmp_path) as (server, _, _admin):
        http = server.browser("192.0.2.7")
        answers = [(await http.get(f"{AUTH}/oauth/company")).headers["location"] for _ in range(101)]
        assert answers[-1] == "/login?problem=failed" and answers.count(answers[-1]) == 1
        assert problem_of(await log_in_there(server.browser("192.0.2.8"))) == ""


async def test_the_callback_is_at_the_configured_address_whatever_the_request_says(tmp_path: Path) -> None:
    gateway = {"public_url": "https://deerflow.example.com"}
    async with run_provider() as provider:
        users = {"sso": {"company": provider.config()}}
        async with open_account_server(tmp_path, users=users, gateway=gateway) as server:
            await server.set_up()
            started = await server.browser().get(f"{AUTH}/oauth/company")
            asked = parse_qs(urlsplit(started.headers["location"]).query)
            assert asked["redirect_uri"] == ["https://deerflow.example.com/api/v1/auth/callback/company"]
