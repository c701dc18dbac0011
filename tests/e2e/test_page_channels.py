"""Chat apps and webhooks in the page: connect, code, webhook; in both themes and on a phone."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from deerflow.testing import ScriptedServer
from deerflow.testing.channels.telegram import TOKEN, FakeTelegram
from tests.e2e.support import PHONE, Visitor, check_both_themes, serve_model


@pytest.mark.parametrize("screen", [{"viewport": {"width": 1440, "height": 900}}, PHONE])
async def test_a_chat_app_and_a_webhook_are_connected(
    tmp_path: Path, visitor: Visitor, screen: dict[str, object]
) -> None:
    visitor.ignored_messages = "Failed to load resource"  # the answer to the wrong token
    async with ScriptedServer(["Hi"], endless=True) as model, FakeTelegram() as telegram:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(f"{server.url}/settings", reduced_motion="reduce", **screen)
            await page.get_by_role("link", name="Manage chat apps").click()
            await expect(page.get_by_text("No chat app is connected.")).to_be_visible()
            await check_both_themes(page)
            await page.get_by_label("Chat app", exact=True).select_option("telegram")
            await page.get_by_label("Base url").fill(telegram.base_url)
            await page.get_by_label("Bot token").fill("1:wrong")
            await page.get_by_role("button", name="Check").click()
            await expect(page.get_by_role("alert")).to_contain_text("does not accept the token")
            await page.get_by_label("Bot token").fill(TOKEN)
            await page.get_by_role("button", name="Connect", exact=True).click()
            await expect(page.get_by_text("Connected as @deer_bot")).to_be_visible()
            await expect(page.get_by_role("alert")).to_have_count(0)
            await page.get_by_role("button", name="Connect my account").click()
            command = page.get_by_text("/connect ")
            await expect(command).to_be_visible()
            telegram.write(str(await command.text_content()))
            await expect(page.get_by_text("Person 7")).to_be_visible()

            await page.get_by_label("Name").fill("Build failed")
            await page.get_by_label("Message").fill("Find out why {{job}} has failed.")
            await page.get_by_role("button", name="Create webhook").click()
            await expect(page.get_by_text("whsec_")).to_be_visible()
            await expect(page.get_by_role("switch", name="Use Build failed")).to_be_checked()
            await check_both_themes(page)
            scrolls = await page.evaluate("document.documentElement.scrollWidth > innerWidth")
            assert not scrolls
    assert visitor.problems == []
