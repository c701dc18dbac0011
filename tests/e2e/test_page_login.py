"""Login in the page: set-up link, invitation, two people, and the end of a session."""

import re
from pathlib import Path

import httpx
from playwright.async_api import Page, expect

from deerflow.testing import ScriptedServer
from tests.e2e.support import Visitor, send_message, serious_violations, serve_model

ANN, BOB, PASSWORD = "ann@example.com", "bob@example.com", "correct horse battery"
NEW_PASSWORD = "another horse battery"


async def fill_in(page: Page, button: str, email: str | None, password: str) -> None:
    if email is not None:
        await page.get_by_label("E-mail address").fill(email)
    await page.get_by_label("assword").fill(password)
    await page.get_by_role("button", name=button).click()


async def test_two_people_use_one_server_and_see_nothing_of_each_other(tmp_path: Path, visitor: Visitor) -> None:
    visitor.ignored_messages = "Failed to load resource"
    async with ScriptedServer(["Herons wade.", "Only Bob hears this."]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "write about herons")
            await expect(page.get_by_text("Herons wade.")).to_be_visible(timeout=30_000)

            await page.goto(f"{server.url}/settings")
            await page.get_by_role("button", name="Require a login").click()
            await expect(page.get_by_role("heading", name="Create the first account")).to_be_visible()
            assert await serious_violations(page) == []
            await fill_in(page, "Create the first account", ANN, PASSWORD)
            await expect(page.get_by_role("link", name="write about herons")).to_be_visible()
            assert (await ask(f"{server.url}/api/threads/x")).status_code == 401

            invitation = await invite(page, server.url)
            bob = await visitor.open(f"{server.url}/icon.svg", reduced_motion="reduce")
            await bob.goto(server.url)
            await expect(bob.get_by_role("heading", name="Log in")).to_be_visible()
            assert await serious_violations(bob) == []
            await bob.goto(invitation)
            await expect(bob.get_by_role("heading", name="Create your account")).to_be_visible()
            assert await serious_violations(bob) == []
            await fill_in(bob, "Create your account", None, PASSWORD)
            await send_message(bob, "and about bees")
            await expect(bob.get_by_text("Only Bob hears this.")).to_be_visible(timeout=30_000)
            await expect(bob.get_by_role("link", name="write about herons")).to_have_count(0)
            await bob.goto(f"{server.url}/users")
            await expect(bob.get_by_text("Only administrators can see this page.")).to_be_visible()

            await check_account(bob, server.url)
            await page.goto(server.url)
            await expect(page.get_by_role("link", name="and about bees")).to_have_count(0)


async def ask(url: str, token: str | None = None) -> httpx.Response:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(headers=headers, timeout=10) as http:
        return await http.get(url)


async def invite(page: Page, url: str) -> str:
    await page.goto(f"{url}/users")
    await page.get_by_label("E-mail address").fill(BOB)
    await page.get_by_role("button", name="Invite").click()
    link = page.get_by_text(re.compile(f"^{re.escape(url)}/invitation#"))
    await expect(link).to_be_visible()
    assert await serious_violations(page) == []
    return await link.inner_text()


async def check_account(page: Page, url: str) -> None:
    """Create a token, change the password, log out and in again."""
    await page.goto(f"{url}/account")
    await page.get_by_label("Name of the token").fill("laptop")
    await page.get_by_role("button", name="Create token").click()
    token = await page.get_by_text(re.compile("^df_")).inner_text()
    me = await ask(f"{url}/api/v1/auth/me", token)
    assert me.json()["email"] == BOB
    await page.get_by_label("Current password").fill(PASSWORD)
    await page.get_by_label("New password").fill(NEW_PASSWORD)
    await page.get_by_role("button", name="Change password").click()
    await expect(page.get_by_text("The password was changed.")).to_be_visible()
    assert await serious_violations(page) == []
    await page.get_by_role("button", name="Log out", exact=True).click()
    await expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    await fill_in(page, "Log in", BOB, PASSWORD)
    await expect(page.get_by_text("The e-mail address or the password is wrong.")).to_be_visible()
    await fill_in(page, "Log in", BOB, NEW_PASSWORD)
    await expect(page.get_by_role("link", name="and about bees")).to_be_visible()
