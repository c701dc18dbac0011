"""The audit log and access by administrators in the page, in both languages."""

from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Page, expect

from deerflow.testing import ScriptedServer
from tests.e2e.support import PHONE, Visitor, send_message, serious_violations, serve_model

ANN, BOB, PASSWORD = "ann@example.com", "bob@example.com", "correct horse battery"


async def set_up(page: Page, url: str) -> None:
    """Create the first account in the page."""
    await page.goto(f"{url}/settings")
    await page.get_by_role("button", name="Require a login").click()
    await page.get_by_label("E-mail address").fill(ANN)
    await page.get_by_label("assword").fill(PASSWORD)
    await page.get_by_role("button", name="Create the first account").click()
    await expect(page.get_by_role("link", name="write about herons")).to_be_visible()


def connect(url: str, cookies: Mapping[str, str] | None = None) -> httpx.AsyncClient:
    """Return a client that sends what the page sends."""
    headers = {"origin": url, "sec-fetch-site": "same-origin", "x-csrf-protection": "1"}
    return httpx.AsyncClient(base_url=url, headers=headers, cookies=dict(cookies or {}), timeout=20)


async def read_as_another_administrator(page: Page, url: str) -> None:
    """Invite an administrator, who reads the thread of the first."""
    cookies = {each["name"]: each["value"] for each in await page.context.cookies()}
    async with connect(url, cookies) as http:
        found = await http.post("/api/threads/search", json={})
        thread = found.json()[0]["thread_id"]
        invitation = {"email": BOB, "role": "admin"}
        link = (await http.post("/api/v1/auth/invitations", json=invitation)).json()["path"]
    async with connect(url) as http:
        account = {"token": link.partition("#")[2], "email": BOB, "password": PASSWORD}
        assert (await http.post("/api/v1/auth/accept-invitation", json=account)).is_success
        reason = {"reason": "support request 17"}
        assert (await http.get(f"/api/admin/threads/{thread}/messages", params=reason)).is_success
        wrong = {"email": ANN, "password": "not the password"}
        assert (await http.post("/api/v1/auth/login/local", json=wrong)).status_code == 401


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_administrators_see_verify_and_filter_the_audit_log(tmp_path: Path, visitor: Visitor, theme: str) -> None:
    visitor.ignored_messages = "Failed to load resource"
    async with ScriptedServer(["Herons wade."]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce", color_scheme=theme)
            await send_message(page, "write about herons")
            await expect(page.get_by_text("Herons wade.")).to_be_visible(timeout=30_000)
            await set_up(page, server.url)
            await read_as_another_administrator(page, server.url)

            await page.goto(f"{server.url}/settings")
            await page.get_by_role("link", name="Audit log").click()
            await expect(page.get_by_text("Thread read by an administrator")).to_be_visible()
            await expect(page.get_by_text("reason: support request 17")).to_be_visible()
            await page.get_by_role("button", name="Verify").click()
            await expect(page.get_by_text("Nothing was changed. 7 entries were verified.")).to_be_visible()
            assert await serious_violations(page) == []
            await page.get_by_label("Head that was kept").fill(f"2:{'0' * 64}")
            await page.get_by_role("button", name="Verify").click()
            await expect(page.get_by_text("The audit log was changed.")).to_be_visible()
            await page.get_by_label("Kind").select_option("data")
            await expect(page.get_by_text("Account created")).to_have_count(0)
            await expect(page.get_by_text("Thread read by an administrator")).to_be_visible()

            chinese = await visitor.open(f"{server.url}/icon.svg", locale="zh-CN", color_scheme=theme, **PHONE)
            await chinese.context.add_cookies(await page.context.cookies())
            await chinese.goto(f"{server.url}/audit")
            await expect(chinese.get_by_text("管理员读取了会话")).to_be_visible()
            assert await serious_violations(chinese) == []

            await page.goto(f"{server.url}/account")
            await expect(page.get_by_text(f"{BOB} read a thread: support request 17")).to_be_visible()
            assert await serious_violations(page) == []


async def join(page: Page, url: str) -> str:
    """Invite a user, who has a conversation with the model; return the id of the thread."""
    cookies = {each["name"]: each["value"] for each in await page.context.cookies()}
    async with connect(url, cookies) as http:
        invitation = {"email": BOB, "role": "user"}
        link = (await http.post("/api/v1/auth/invitations", json=invitation)).json()["path"]
    async with connect(url) as http:
        account = {"token": link.partition("#")[2], "email": BOB, "password": PASSWORD}
        assert (await http.post("/api/v1/auth/accept-invitation", json=account)).is_success
        body = {"input": {"messages": [{"type": "human", "content": "What do storks eat?"}]}}
        assert (await http.post("/api/threads/storks/runs/wait", json=body)).is_success
        assert (await http.get("/api/v1/auth/admin-access")).json() == []
    return "storks"


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_an_administrator_reads_a_thread_with_a_reason_and_the_person_sees_it(
    tmp_path: Path, visitor: Visitor, theme: str
) -> None:
    visitor.ignored_messages = "Failed to load resource"
    async with ScriptedServer(["Herons wade.", "Storks eat **frogs**."]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce", color_scheme=theme)
            await send_message(page, "write about herons")
            await expect(page.get_by_text("Herons wade.")).to_be_visible(timeout=30_000)
            await set_up(page, server.url)
            thread = await join(page, server.url)

            await page.goto(f"{server.url}/users")
            read = page.get_by_role("button", name="Read a thread")
            await page.get_by_label("Thread id or link").fill(f"{server.url}/threads/gone")
            await expect(read).to_be_disabled()
            await page.get_by_label("Reason").fill("support request 17")
            await read.click()
            await expect(page.get_by_role("alert")).to_be_visible()
            await page.get_by_label("Thread id or link").fill(f"{server.url}/threads/{thread}")
            await read.click()
            messages = page.get_by_role("region", name=f"Messages of thread {thread}")
            await expect(messages.get_by_text("What do storks eat?")).to_be_visible()
            await expect(messages.locator("strong", has_text="frogs")).to_be_visible()
            await expect(messages.get_by_text("This read was recorded.")).to_be_visible()
            await expect(messages.get_by_role("textbox")).to_have_count(0)
            assert await serious_violations(page) == []

            chinese = await visitor.open(f"{server.url}/icon.svg", locale="zh-CN", color_scheme=theme, **PHONE)
            await chinese.context.add_cookies(await page.context.cookies())
            await chinese.goto(f"{server.url}/users")
            await expect(chinese.get_by_role("button", name="读取会话")).to_be_visible()
            assert await serious_violations(chinese) == []

            person = await visitor.open(f"{server.url}/icon.svg", reduced_motion="reduce", color_scheme=theme)
            async with connect(server.url) as http:
                await http.post("/api/v1/auth/login/local", json={"email": BOB, "password": PASSWORD})
                cookies = [{"name": name, "value": value, "url": server.url} for name, value in http.cookies.items()]
            await person.context.add_cookies(cookies)
            await person.goto(f"{server.url}/account")
            await expect(person.get_by_text(f"{ANN} read a thread: support request 17")).to_have_count(1)
            await person.get_by_role("link", name="Open the thread").click()
            await expect(person.get_by_text("What do storks eat?").first).to_be_visible()
            await person.goto(f"{server.url}/users")
            await expect(person.get_by_text("Only administrators can see this page.")).to_be_visible()
            await expect(person.get_by_role("button", name="Read a thread")).to_have_count(0)
