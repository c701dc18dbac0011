"""Single sign-on and passkeys in the page, with the virtual authenticator of Chromium."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Dialog, Page, expect

from deerflow.testing import ScriptedServer
from tests.e2e.support import Visitor, serious_violations, serve_model
from tests.gateway.openid_provider import OpenIdProvider, run_provider

ANN, PASSWORD = "ann@example.com", "correct horse battery"
AUTHENTICATOR = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


@asynccontextmanager
async def open_account(home: Path, visitor: Visitor) -> AsyncIterator[tuple[Page, str, OpenIdProvider]]:
    """Run a provider and a server with an account; yield the page of its owner, at a name and not an address."""
    visitor.ignored_messages = "Failed to load resource"
    async with ScriptedServer([]) as model, run_provider() as provider:
        with serve_model(home, model, users={"sso": {"company": provider.config()}}) as server:
            url = server.url.replace("127.0.0.1", "localhost")
            page = await visitor.open(f"{url}/settings", reduced_motion="reduce")
            await page.get_by_role("button", name="Require a login").click()
            await page.get_by_label("E-mail address").fill(ANN)
            await page.get_by_label("assword").fill(PASSWORD)
            await page.get_by_role("button", name="Create the first account").click()
            await expect(page.get_by_role("link", name="Settings")).to_be_visible()
            yield page, url, provider
            # The browser has been sent to the provider, which is at another origin.
            visitor.problems[:] = [each for each in visitor.problems if provider.url not in each]


async def add_authenticator(page: Page) -> str:
    session = await page.context.new_cdp_session(page)
    await session.send("WebAuthn.enable")
    added = await session.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})
    return str(added["authenticatorId"])


async def log_out(page: Page, url: str) -> None:
    await page.goto(f"{url}/account")
    await page.get_by_role("button", name="Log out", exact=True).click()
    await expect(page.get_by_role("heading", name="Log in")).to_be_visible()


async def test_a_passkey_is_added_renamed_used_and_removed(tmp_path: Path, visitor: Visitor) -> None:
    async with open_account(tmp_path, visitor) as (page, url, _):
        await add_authenticator(page)
        await page.goto(f"{url}/account")
        await page.get_by_label("Name of the passkey").fill("laptop")
        await page.get_by_role("button", name="Add a passkey").click()
        await expect(page.get_by_text("laptop")).to_be_visible()
        assert await serious_violations(page) == []

        async def answer(dialog: Dialog) -> None:
            await dialog.accept("telephone")

        page.once("dialog", answer)
        await page.get_by_role("button", name="Rename").click()
        await expect(page.get_by_text("telephone")).to_be_visible()

        await log_out(page, url)
        await page.get_by_role("button", name="Log in with a passkey").click()
        await expect(page.get_by_role("link", name="Settings")).to_be_visible()

        await page.goto(f"{url}/account")
        await page.get_by_role("button", name="Delete").click()
        await expect(page.get_by_text("No passkeys.")).to_be_visible()
        await log_out(page, url)
        await page.get_by_role("button", name="Log in with a passkey").click()
        await expect(page.get_by_text("The passkey was not accepted.")).to_be_visible()


async def test_a_person_logs_in_at_a_provider_and_sees_why_a_login_failed(tmp_path: Path, visitor: Visitor) -> None:
    async with open_account(tmp_path, visitor) as (page, url, provider):
        await log_out(page, url)
        button = page.get_by_role("link", name="Continue with Example Inc.")
        await expect(button).to_be_visible()
        assert await serious_violations(page) == []
        provider.person["email_verified"] = False
        await button.click()
        await expect(page.get_by_text("The provider has not verified your e-mail address.")).to_be_visible()
        assert await serious_violations(page) == []
        provider.person["email_verified"] = True
        await button.click()
        await expect(page.get_by_role("link", name="Settings")).to_be_visible()
        await page.goto(f"{url}/account")
        await expect(page.get_by_text("cat@example.com").first).to_be_visible()
        await page.get_by_role("button", name="Unlink").click()
        await expect(page.get_by_text("this is the only way to log in")).to_be_visible()
        assert await serious_violations(page) == []


@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
async def test_login_and_account_are_accessible_in_both_languages(
    tmp_path: Path, visitor: Visitor, locale: str
) -> None:
    async with open_account(tmp_path, visitor) as (owner, url, _):
        cookies = await owner.context.cookies()
        page = await visitor.open(f"{url}/login?problem=has-account", reduced_motion="reduce", locale=locale)
        await expect(page.get_by_role("alert")).to_be_visible()
        await expect(page.get_by_role("link", name="Example Inc.")).to_be_visible()
        assert await serious_violations(page) == []
        await page.context.add_cookies(cookies)  # type: ignore[arg-type]  # what is read has more fields
        await page.goto(f"{url}/account")
        await expect(page.get_by_role("heading", name=re.compile("Linked logins|关联的登录方式"))).to_be_visible()
        assert await serious_violations(page) == []
