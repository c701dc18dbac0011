"""Quotas in the page: an administrator sets them, and a person sees what is left, in both languages."""

from pathlib import Path

import httpx
from playwright.async_api import Page, expect

from deerflow.testing import ScriptedServer
from tests.e2e.support import Visitor, serious_violations, serve_model

ANN, BOB, PASSWORD = "ann@example.com", "bob@example.com", "correct horse battery"
AUTH = "/api/v1/auth"


async def make_accounts(url: str) -> None:
    """Create an administrator and a person."""
    headers = {"origin": url, "x-csrf-protection": "1"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=30) as http:
        token = (await http.post(f"{AUTH}/setup-link")).json()["path"].partition("#")[2]
        first = {"token": token, "email": ANN, "password": PASSWORD}
        assert (await http.post(f"{AUTH}/initialize", json=first)).status_code == 200
        invited = await http.post(f"{AUTH}/invitations", json={"email": BOB})
        second = {"token": invited.json()["path"].partition("#")[2], "email": BOB, "password": PASSWORD}
        assert (await http.post(f"{AUTH}/accept-invitation", json=second)).status_code == 200


async def log_in(page: Page, email: str, button: str, *labels: str) -> None:
    for label, value in zip(labels, (email, PASSWORD), strict=True):
        await page.get_by_label(label).fill(value)
    await page.get_by_role("button", name=button, exact=True).click()
    await expect(page.get_by_role("button", name=button, exact=True)).to_have_count(0)


async def test_an_administrator_sets_a_quota_that_the_person_sees_used(tmp_path: Path, visitor: Visitor) -> None:
    visitor.ignored_messages = "Failed to load resource"
    async with ScriptedServer(["Hello."]) as model:
        with serve_model(tmp_path, model) as server:
            await make_accounts(server.url)
            page = await visitor.open(f"{server.url}/icon.svg", reduced_motion="reduce")
            await page.goto(f"{server.url}/users")
            await log_in(page, ANN, "Log in", "E-mail address", "Password")
            await page.goto(f"{server.url}/users")
            row = page.locator("div", has=page.get_by_text(BOB, exact=True)).filter(
                has=page.get_by_role("button", name="Quota")
            )
            await row.last.get_by_role("button", name="Quota").click()
            await page.get_by_label("Tokens per day").fill("2000000")
            await page.get_by_label("Cost per day").fill("2.50")
            await page.get_by_label("Threads with a run").fill("3")
            await page.get_by_label("Storage (MB)").fill("500")
            await page.get_by_label("Requests per second").fill("none")
            assert await serious_violations(page) == []
            await page.get_by_role("button", name="Save").click()
            await expect(page.get_by_label("Tokens per day")).to_have_count(0)

            bob = await visitor.open(f"{server.url}/icon.svg", reduced_motion="reduce", locale="zh-CN")
            await bob.goto(f"{server.url}/account")
            await log_in(bob, BOB, "登录", "电子邮箱", "密码")
            await bob.goto(f"{server.url}/account")
            await expect(bob.get_by_role("heading", name="配额")).to_be_visible()
            await expect(bob.get_by_role("meter", name="每日 Token")).to_have_attribute("max", "2000000")
            await expect(bob.get_by_role("meter", name="正在运行的会话")).to_have_attribute("max", "3")
            assert await serious_violations(bob) == []
