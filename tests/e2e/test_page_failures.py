"""Errors of models in a real browser: what happened, and the button that helps."""

from pathlib import Path

from playwright.async_api import Page, expect

from deerflow.testing import Answer, ScriptedServer, ServerFault, ServerRequest
from deerflow.testing.scripted_server import ServerReply
from tests.e2e.server_process import serve
from tests.e2e.support import PHONE, Visitor, send_message, serious_violations, serve_model, wait_for_answer
from tests.models.checked_servers import answer_check

TOO_LONG = ServerFault(400, "maximum context length is 8192 tokens", "context_length_exceeded")
NO_CREDIT = ServerFault(429, "You exceeded your current quota", "insufficient_quota")
OLD_KEY, NEW_KEY = "sk-proj-old-0123456789ab", "sk-proj-new-0123456789ab"
SUMMARY = "Notes: four birds were named."


def refuse_long_threads(request: ServerRequest) -> ServerReply:
    """Answer like a model with a small window: refuse four birds that are not summarized."""
    asked = str(request.messages).count("Tell me about")
    if not request.body.get("tools"):
        return Answer(SUMMARY)
    is_summarized = "four birds were named" in str(request.messages)
    return TOO_LONG if asked > 3 and not is_summarized else Answer(f"Answer {asked}.")


async def test_a_thread_that_is_too_long_is_summarized_and_answered(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer([refuse_long_threads], endless=True) as model:
        with serve_model(tmp_path, model, title={"enabled": False}) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            for bird in ("heron", "wren", "owl"):
                await send_message(page, f"Tell me about the {bird}")
                await wait_for_answer(page)
            await send_message(page, "Tell me about the kite")
            failure = page.get_by_role("alert")
            await expect(failure).to_contain_text("This thread is too long for scripted")
            await expect(failure).to_contain_text("Replace earlier messages by a summary")
            assert await serious_violations(page) == []
            await page.reload()
            await failure.get_by_role("button", name="Summarize and retry").click()
            await expect(page.get_by_text("Earlier messages were summarized").first).to_be_visible()
            await expect(failure).to_have_count(0)
            await wait_for_answer(page)
            await expect(page.locator("[data-role=assistant] .prose").last).to_contain_text("Answer")
            await expect(page.locator("[data-said]")).to_have_count(4)
        last = str(model.requests[-1].messages)
        assert "four birds were named" in last and "the heron" not in last and "the kite" in last


async def expect_remedies(page: Page, headline: str, *names: str) -> None:
    failure = page.get_by_role("alert")
    await expect(failure).to_contain_text(headline)
    await expect(failure.get_by_role("button")).to_have_text(list(names))


async def test_a_used_up_quota_leads_to_another_model(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer([NO_CREDIT, "Answered by the other one."]) as model:
        with serve_model(tmp_path, model, others=["other"], title={"enabled": False}) as server:
            page = await visitor.open(server.url, reduced_motion="reduce", **PHONE)
            await page.get_by_role("textbox", name="Message").fill("hello")
            await page.get_by_role("button", name="Send", exact=True).click()
            await expect_remedies(page, "The quota for scripted is used up", "Use another model", "Try again")
            await page.get_by_text("Details").click()
            await expect(page.get_by_role("alert")).to_contain_text("You exceeded your current quota")
            assert await page.evaluate("document.documentElement.scrollWidth") == 390
            assert await serious_violations(page) == []
            await page.get_by_role("button", name="Use another model").click()
            await page.get_by_role("menuitem", name="other").click()
            await expect(page.get_by_text("Answered by the other one.")).to_be_visible()
            await expect(page.get_by_role("alert")).to_have_count(0)
        assert [request.model for request in model.requests][-1] == "other"


def reply(request: ServerRequest) -> ServerReply:
    """Refuse messages of people with the old key."""
    is_person = any("Who answers?" in str(message.get("content")) for message in request.messages)
    if is_person and OLD_KEY in request.headers["Authorization"]:
        return ServerFault(401, "Incorrect API key provided", "invalid_api_key")
    return Answer("Hello with the new key.") if is_person else answer_check(request)


async def test_a_rejected_key_is_replaced_where_it_failed(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer([reply], endless=True, models=["gpt-5-mini"]) as model:
        (tmp_path / ".env").write_text(f"OPENAI_BASE_URL={model.base_url}\n")
        with serve(tmp_path) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await page.get_by_role("button", name="Connect a model").click()
            await page.get_by_role("dialog").get_by_role("textbox", name="API key").fill(OLD_KEY)
            await expect(page.get_by_text("It works.")).to_be_visible()
            await page.get_by_role("button", name="Save", exact=True).click()
            await expect(page.get_by_role("dialog")).to_have_count(0)
            await send_message(page, "Who answers?")
            await expect(page.get_by_role("alert")).to_contain_text("The key for")
            await page.get_by_role("alert").get_by_role("button", name="Update key").click()
            dialog = page.get_by_role("dialog", name="Key for OpenAI · GPT-5 mini")
            field = dialog.get_by_label("New API key")
            await expect(field).to_be_focused()
            assert await serious_violations(page) == []
            await field.fill(NEW_KEY)
            await page.keyboard.press("Enter")
            await expect(page.get_by_text("Hello with the new key.")).to_be_visible()
            await expect(page.get_by_role("alert")).to_have_count(0)
            assert NEW_KEY not in await page.content()
