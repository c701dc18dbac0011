"""Side questions about a quoted part, in a real browser against a real server."""

import asyncio
from pathlib import Path

import httpx
from playwright.async_api import Page, expect

from deerflow.testing import Answer, ScriptedServer, ServerFault, Stall, calling
from tests.e2e.support import PHONE, Visitor, send_message, serious_violations, serve_model, wait_for_answer

WAIT_FOR_DELETION = """async () => {
    const body = JSON.stringify({ metadata: { temporary: true } });
    const headers = { "Content-Type": "application/json" };
    const list = () => fetch("/api/threads/search", { method: "POST", headers, body }).then((found) => found.json());
    while ((await list()).length > 0) await new Promise((resume) => setTimeout(resume, 50));
}"""
"""The policy of the page forbids what `wait_for_function` does."""


async def select_answer(page: Page, nth: int = -1) -> None:
    """Select the text of an answer."""
    prose = page.locator("[data-role=assistant] .prose").nth(nth)
    await prose.evaluate("node => getSelection().selectAllChildren(node)")


async def thread_ids(url: str, **body: object) -> list[str]:
    async with httpx.AsyncClient() as http:
        found = await http.post(f"{url}/api/langgraph/threads/search", json={"limit": 100, **body})
        return [thread["thread_id"] for thread in found.raise_for_status().json()]


async def test_a_side_question_knows_the_thread_and_leaves_nothing_in_it(tmp_path: Path, visitor: Visitor) -> None:
    replies = ["Herons stand.", Stall(Answer("Because they wait"))]
    async with ScriptedServer(replies) as model:
        with serve_model(tmp_path, model, title={"enabled": False}) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "Tell me about birds")
            await wait_for_answer(page)
            thread_url = page.url
            await select_answer(page)
            await page.get_by_role("button", name="Ask about this").click()
            aside = page.get_by_role("dialog", name="Side question")
            await expect(aside.get_by_role("textbox", name="Your question")).to_be_focused()
            await page.keyboard.type("Why do they?")
            await page.keyboard.press("Enter")
            await expect(aside).to_contain_text("Because they wait")
            for scheme in ("light", "dark"):
                await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
                assert await serious_violations(page) == []
            model.release()
            await expect(aside.get_by_role("button", name="Insert into message")).to_be_visible()
            asked = str(model.requests[-1].messages)
            assert "Tell me about birds" in asked and "> Herons stand." in asked and "Why do they?" in asked
            assert len(await thread_ids(server.url)) == 1

            await aside.get_by_role("button", name="Insert into message").click()
            await expect(page.get_by_role("textbox", name="Message")).to_have_value("Because they wait")
            await expect(aside).to_have_count(0)
            await page.reload()
            await expect(page.locator("[data-said]")).to_have_text(["Tell me about birds"])
            assert page.url == thread_url
            # The copy is deleted, not only hidden.
            async with asyncio.timeout(10):
                await page.evaluate(WAIT_FOR_DELETION)


async def test_a_side_question_fails_or_is_closed_without_a_trace(tmp_path: Path, visitor: Visitor) -> None:
    refusal = ServerFault(401, "Incorrect API key provided", "invalid_api_key")
    async with ScriptedServer(["Herons stand.", refusal, "They nest high.", "Goodbye."]) as model:
        with serve_model(tmp_path, model, title={"enabled": False}) as server:
            page = await visitor.open(server.url, reduced_motion="reduce", **PHONE)
            field = page.get_by_role("textbox", name="Message")
            await field.fill("Tell me about birds")
            await page.get_by_role("button", name="Send", exact=True).click()
            await wait_for_answer(page)
            await select_answer(page)
            await page.get_by_role("button", name="Ask about this").click()
            aside = page.get_by_role("dialog", name="Side question")
            question = aside.get_by_role("textbox", name="Your question")
            await question.fill("Where do they nest?")
            await aside.get_by_role("button", name="Ask", exact=True).click()
            await expect(aside.get_by_role("alert")).to_contain_text("Couldn’t get an answer")
            await question.fill("Where, then?")
            await aside.get_by_role("button", name="Ask", exact=True).click()
            await expect(aside).to_contain_text("They nest high.")
            assert await serious_violations(page) == []
            assert await page.evaluate("document.documentElement.scrollWidth") == 390
            await question.press("Escape")
            await expect(aside).to_have_count(0)
            await expect(field).to_have_value("")
            await field.fill("bye")
            await page.get_by_role("button", name="Send", exact=True).click()
            await expect(page.get_by_text("Goodbye.")).to_be_visible()
            assert "nest" not in str(model.requests[-1].messages)


async def test_a_side_question_is_answered_while_the_thread_works(tmp_path: Path, visitor: Visitor) -> None:
    wait = calling("bash", description="Wait", command="until [ -e go ]; do sleep 0.05; done")
    async with ScriptedServer(["Herons stand.", wait, "They wade too.", "Done."]) as model:
        with serve_model(tmp_path, model, title={"enabled": False}) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "Tell me about birds")
            await wait_for_answer(page)
            await send_message(page, "and wait")
            await expect(page.get_by_role("button", name="Wait")).to_be_visible()
            await select_answer(page, 0)
            await page.get_by_role("button", name="Ask about this").click()
            aside = page.get_by_role("dialog", name="Side question")
            await aside.get_by_role("textbox", name="Your question").fill("Do they wade?")
            await page.keyboard.press("Enter")
            await expect(aside).to_contain_text("They wade too.")
            # Asked at the end of the quoted answer.
            assert "and wait" not in str(model.requests[-1].messages)
            await aside.get_by_role("button", name="Close").last.click()
            thread = page.url.rsplit("/", 1)[1]
            (tmp_path / f"users/local/threads/{thread}/user-data/workspace/go").touch()
            await expect(page.get_by_text("Done.", exact=True)).to_be_visible()
