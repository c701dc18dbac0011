"""Sharing threads with people and teams in the page, in both languages."""

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


async def join(page: Page, url: str) -> list[dict[str, str]]:
    """Create an account for Bob; return the cookies of his session."""
    headers = {"origin": url, "sec-fetch-site": "same-origin", "x-csrf-protection": "1"}
    cookies = {each["name"]: each["value"] for each in await page.context.cookies()}
    async with httpx.AsyncClient(base_url=url, headers=headers, cookies=cookies, timeout=20) as http:
        link = (await http.post("/api/v1/auth/invitations", json={"email": BOB, "role": "user"})).json()["path"]
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=20) as http:
        account = {"token": link.partition("#")[2], "email": BOB, "password": PASSWORD}
        assert (await http.post("/api/v1/auth/accept-invitation", json=account)).is_success
        return [{"name": name, "value": value, "url": url} for name, value in http.cookies.items()]


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_a_thread_is_shared_with_a_person_and_a_team(tmp_path: Path, visitor: Visitor, theme: str) -> None:
    visitor.ignored_messages = "Failed to load resource"
    async with ScriptedServer(["Herons wade.", "They do."], endless=True) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce", color_scheme=theme)
            await send_message(page, "write about herons")
            await expect(page.get_by_text("Herons wade.")).to_be_visible(timeout=30_000)
            await page.get_by_role("button", name="Share", exact=True).click()
            await expect(page.get_by_text("People and teams")).to_have_count(0)
            await page.keyboard.press("Escape")
            await set_up(page, server.url)
            cookies = await join(page, server.url)

            await page.goto(f"{server.url}/settings")
            await page.get_by_role("link", name="Teams", exact=True).click()
            await page.get_by_label("Name of the team").fill("Birds")
            await page.get_by_role("button", name="Create team").click()
            await page.get_by_role("button", name="Members").click()
            await page.get_by_label("E-mail address").fill("nobody@example.com")
            await page.get_by_role("button", name="Add", exact=True).click()
            await expect(page.get_by_role("alert")).to_contain_text("nobody@example.com")
            await page.get_by_label("E-mail address").fill(BOB)
            await page.get_by_role("button", name="Add", exact=True).click()
            await expect(page.get_by_role("list", name="Members of Birds")).to_contain_text(BOB)
            assert await serious_violations(page) == []

            await page.goto(server.url)
            await page.get_by_role("link", name="write about herons").click()
            await page.get_by_role("button", name="Share", exact=True).click()
            dialog = page.get_by_role("dialog")
            await dialog.get_by_label("E-mail address").fill(BOB)
            await dialog.get_by_role("button", name="Share", exact=True).click()
            await expect(dialog.get_by_label(f"Access of {BOB}")).to_have_value("read")
            await dialog.get_by_label("Share with").select_option("Birds")
            await dialog.get_by_role("button", name="Share", exact=True).click()
            await expect(dialog.get_by_label("Access of Birds")).to_have_value("read")
            assert await serious_violations(page) == []

            bob = await visitor.open(f"{server.url}/icon.svg", reduced_motion="reduce", color_scheme=theme)
            await bob.context.add_cookies(cookies)  # type: ignore[arg-type]  # a cookie by its address
            await bob.goto(server.url)
            shared = bob.get_by_role("region", name="Shared with me")
            await shared.get_by_role("link", name="write about herons").click()
            await expect(bob.get_by_text("Herons wade.")).to_be_visible()
            await expect(bob.get_by_text(f"Shared by {ANN} · Can read")).to_be_visible()
            await expect(bob.get_by_role("note")).to_contain_text("for reading only")
            await expect(bob.get_by_role("textbox")).to_have_count(0)
            assert await serious_violations(bob) == []

            await dialog.get_by_label(f"Access of {BOB}").select_option("write")
            await expect(dialog.get_by_label(f"Access of {BOB}")).to_have_value("write")
            await bob.reload()
            await send_message(bob, "Do they?")
            await expect(bob.get_by_text("They do.")).to_be_visible(timeout=30_000)
            for name in ("Birds", BOB):
                await dialog.get_by_role("button", name=f"Stop sharing with {name}").click()
                await expect(dialog.get_by_label(f"Access of {name}")).to_have_count(0)
            await bob.goto(server.url)
            await expect(bob.get_by_role("link", name="New thread")).to_be_visible()
            await expect(bob.get_by_text("Shared with me")).to_have_count(0)

            chinese = await visitor.open(f"{server.url}/icon.svg", locale="zh-CN", color_scheme=theme, **PHONE)
            await chinese.context.add_cookies(await page.context.cookies())  # type: ignore[arg-type]
            await chinese.goto(f"{server.url}/teams")
            await expect(chinese.get_by_text("2 名成员")).to_be_visible()
            assert await serious_violations(chinese) == []


SKILL = "---\nname: birds\ndescription: About herons.\n---\n# How\n\nWade slowly.\n"


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_an_agent_and_a_skill_are_shared_with_a_person(tmp_path: Path, visitor: Visitor, theme: str) -> None:
    visitor.ignored_messages = "Failed to load resource"
    async with ScriptedServer(["Herons wade."], endless=True) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce", color_scheme=theme)
            await send_message(page, "write about herons")
            await expect(page.get_by_text("Herons wade.")).to_be_visible(timeout=30_000)
            await page.goto(f"{server.url}/teams")
            await expect(page.get_by_text("Teams need accounts.")).to_be_visible()
            await expect(page.get_by_label("Name of the team")).to_have_count(0)
            await set_up(page, server.url)
            cookies = await join(page, server.url)
            headers = {"origin": server.url, "sec-fetch-site": "same-origin", "x-csrf-protection": "1"}
            for path, body in (
                ("agents", {"name": "scribe", "soul": "You are brief."}),
                ("skills/custom", {"content": SKILL}),
            ):
                made = await page.request.post(f"{server.url}/api/{path}", data=body, headers=headers)
                assert made.status == 201, await made.text()

            for path in ("agents/scribe", "skills/birds"):
                await page.goto(f"{server.url}/{path}")
                await page.get_by_role("button", name="Share", exact=True).click()
                dialog = page.get_by_role("dialog")
                await dialog.get_by_label("E-mail address").fill(BOB)
                await dialog.get_by_role("button", name="Share", exact=True).click()
                await expect(dialog.get_by_label(f"Access of {BOB}")).to_have_value("read")
                assert await serious_violations(page) == []

            bob = await visitor.open(f"{server.url}/icon.svg", reduced_motion="reduce", color_scheme=theme)
            await bob.context.add_cookies(cookies)  # type: ignore[arg-type]  # a cookie by its address
            await bob.goto(server.url)
            shared = bob.get_by_role("region", name="Shared with me")
            await expect(shared.get_by_text("Off")).to_be_visible()
            await shared.get_by_role("link", name="birds").click()
            await expect(bob.get_by_text(f"Shared by {ANN} · Can read")).to_be_visible()
            await bob.get_by_role("switch").click()
            await expect(bob.get_by_role("switch")).to_be_checked()
            assert await serious_violations(bob) == []
            await shared.get_by_role("link", name="scribe").click()
            await expect(bob.get_by_text(f"Shared by {ANN} · Can read")).to_be_visible()
            await expect(bob.get_by_role("textbox", name="Instructions")).to_have_value("You are brief.")
            await expect(bob.get_by_role("button", name="Save", exact=True)).to_have_count(0)
            assert await serious_violations(bob) == []
            await bob.get_by_role("button", name="Chat", exact=True).click()
            await send_message(bob, "Who are you?")
            await expect(bob.get_by_text("Herons wade.")).to_be_visible(timeout=30_000)
