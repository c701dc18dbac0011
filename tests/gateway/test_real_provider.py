"""Single sign-on at `oidc-provider`, a certified OpenID provider that the test starts."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.account_server import AUTH, AccountServer, open_account_server
from tests.gateway.openid_provider import problem_of
from tests.support import dependencies, install_once, key_of, needs

SCRIPT = Path(__file__).with_name("oidc_provider.mjs")
PACKAGES = dependencies()["npm"]["oidc_provider"]
FORM = re.compile(r'<form[^>]*action="([^"]+)"')
PUBLIC_URL = "http://127.0.0.1:2026"
pytestmark = [pytest.mark.external, pytest.mark.timeout(200)]  # the first time the package is installed


def install_provider(npm: str) -> Path:
    """Return a folder with the provider, installed once for all workers."""
    command = [npm, "install", "--no-audit", "--no-fund", "--silent", "--prefix"]
    return install_once(f"oidc-provider-{key_of(*PACKAGES)}", lambda place: [[*command, place, *PACKAGES]])


@asynccontextmanager
async def open_sso(home: Path, **settings: Any) -> AsyncIterator[tuple[AccountServer, str]]:
    """Run the provider and a server that uses it."""
    node, folder = needs("node"), await asyncio.to_thread(install_provider, needs("npm"))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        node, SCRIPT, folder, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        async with asyncio.timeout(60):
            issuer = (await process.stdout.readline()).decode().strip()
            process.stdin.write(json.dumps([f"{PUBLIC_URL}{AUTH}/callback/company"]).encode() + b"\n")
            while b"ready" not in await process.stdout.readline():
                pass
        provider = {"issuer": issuer, "client_id": "deerflow", "client_secret": "a-client-secret-of-tests"}
        users = {"sso": {"company": {**provider, "allowed_domains": ["example.com"], **settings}}}
        async with open_account_server(home, users=users, gateway={"public_url": PUBLIC_URL}) as server:
            await server.set_up()
            yield server, issuer
    finally:
        process.kill()
        await process.wait()


async def log_in_there(http: httpx.AsyncClient, server: AccountServer, name: str, back: str | None = None) -> str:
    """Log in at the provider with its forms; return the callback, at the address of the test server."""
    url = back or (await http.get(f"{AUTH}/oauth/company")).headers["location"]
    async with httpx.AsyncClient(timeout=20, verify=False) as browser:
        page = await browser.get(url)
        for _ in range(20):
            if page.is_redirect:
                url = str(page.url.join(page.headers["location"]))
                if url.startswith(PUBLIC_URL):
                    return url.replace(PUBLIC_URL, server.url)
                page = await browser.get(url)
                continue
            found = FORM.search(page.text)
            assert page.status_code == 200 and found, page.text
            prompt = "login" if 'name="login"' in page.text else "consent"
            form = {"prompt": prompt, "login": name, "password": "any"}
            page = await browser.post(str(page.url.join(found[1])), data=form)
    raise AssertionError("the provider did not send the browser back")


async def test_a_person_logs_in_at_a_certified_provider(tmp_path: Path) -> None:
    async with open_sso(tmp_path) as (server, issuer):
        http = server.browser()
        assert problem_of(await http.get(await log_in_there(http, server, "cat"))) == ""
        assert (await http.get(f"{AUTH}/me")).json()["email"] == "cat@example.com"
        (identity,) = (await http.get(f"{AUTH}/identities")).json()
        assert identity["issuer"] == issuer


async def test_a_person_whose_address_is_not_verified_does_not_log_in(tmp_path: Path) -> None:
    async with open_sso(tmp_path) as (server, _):
        http = server.browser()
        assert problem_of(await http.get(await log_in_there(http, server, "eve"))) == "unverified"


async def test_a_code_counts_once_and_with_the_secret_of_its_login(tmp_path: Path) -> None:
    async with open_sso(tmp_path) as (server, _):
        http, thief = server.browser(), server.browser()
        back = await log_in_there(http, server, "cat")
        # The thief has a login of its own and sends the code of the other one with its state.
        own = await log_in_there(thief, server, "dan")
        code = httpx.URL(back).params["code"]
        stolen = httpx.URL(own).copy_set_param("code", code)
        assert problem_of(await thief.get(stolen)) == "failed"
        assert (await thief.get(f"{AUTH}/me")).status_code == 401


async def test_a_wrong_client_secret_opens_no_session(tmp_path: Path) -> None:
    async with open_sso(tmp_path, client_secret="wrong") as (server, _):
        http = server.browser()
        assert problem_of(await http.get(await log_in_there(http, server, "cat"))) == "failed"
