"""Acting on what was said and saying more while the agent works, in a real browser against a real server."""

from pathlib import Path

from playwright.async_api import Locator, Page, expect

from deerflow.testing import Answer, CutAfter, ScriptedServer, Stall, calling
from tests.e2e.stage import Visitor, serious_violations
from tests.e2e.test_page import say, serving_model, until_answered


def said(page: Page) -> Locator:
    """What is shown of a conversation, in its order."""
    return page.locator("[data-role=user] [data-said], [data-role=assistant] .prose")


async def act(page: Page, name: str, nth: int = -1) -> None:
    """Use a button of a message with the keyboard, which needs no hovering."""
    await page.get_by_role("button", name=name).nth(nth).focus()
    await page.keyboard.press("Enter")


async def test_an_answer_is_made_anew_and_the_old_one_stays_reachable(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer(["One.", "Uno.", "Eins.", "Two."]) as model:
        with serving_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await say(page, "count")
            await until_answered(page)
            for answer in ("Uno.", "Eins."):
                await act(page, "Regenerate")
                await expect(said(page)).to_have_text(["count", answer])
                await until_answered(page)
            for _ in range(2):
                versions = page.get_by_role("group", name="Versions")
                await expect(versions).to_have_text("3/3")
                await act(page, "Previous version")
                await expect(said(page)).to_have_text(["count", "Uno."])
                await act(page, "Previous version")
                await expect(said(page)).to_have_text(["count", "One."])
                await expect(versions).to_have_text("1/3")
                await expect(page.get_by_text("You’re viewing an earlier version.")).to_be_visible()
                assert await serious_violations(page) == []
                await page.reload()
            await act(page, "Previous version")
            await act(page, "Previous version")
            await say(page, "and then?")
            await until_answered(page)
            await expect(said(page)).to_have_text(["count", "One.", "and then?", "Two."])
            told = [message["content"] for message in model.requests[-1].messages if message["role"] != "system"]
            assert "One." in told and "Eins." not in told
            await page.reload()
            await expect(said(page)).to_have_text(["count", "One.", "and then?", "Two."])


async def test_an_own_message_is_said_otherwise_in_its_place(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer(["One.", "Two.", "Three."]) as model:
        with serving_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await say(page, "first")
            await until_answered(page)
            await say(page, "secnod")
            await expect(said(page)).to_have_text(["first", "One.", "secnod", "Two."])
            await until_answered(page)
            await act(page, "Edit message")
            editor = page.get_by_role("textbox", name="Edit message")
            await expect(editor).to_be_focused()
            await page.keyboard.press("Escape")
            await expect(editor).to_have_count(0)
            await act(page, "Edit message")
            await editor.fill("second")
            assert await serious_violations(page) == []
            await page.keyboard.press("Enter")
            await expect(said(page)).to_have_text(["first", "One.", "second", "Three."])
            await until_answered(page)
            assert "secnod" not in str(model.requests[-1].messages)
            await page.reload()
            await expect(said(page)).to_have_text(["first", "One.", "second", "Three."])
            await act(page, "Previous version")
            await expect(said(page)).to_have_text(["first", "One.", "secnod", "Two."])
            await page.get_by_role("button", name="Show latest").click()
            await expect(said(page)).to_have_text(["first", "One.", "second", "Three."])


async def test_a_conversation_goes_on_from_any_message_in_a_new_thread(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer(["One.", "Two.", "Three."]) as model:
        with serving_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await say(page, "first")
            await until_answered(page)
            await say(page, "second")
            await expect(said(page)).to_have_text(["first", "One.", "second", "Two."])
            await until_answered(page)
            here = page.url
            await act(page, "More", 1)
            await page.get_by_role("menuitem", name="Branch into new thread").click()
            await expect(said(page)).to_have_text(["first", "One."])
            assert page.url != here
            await say(page, "third")
            await expect(said(page)).to_have_text(["first", "One.", "third", "Three."])

            await page.goto(here)
            await expect(said(page)).to_have_text(["first", "One.", "second", "Two."])
            await act(page, "More", 2)
            await page.get_by_role("menuitem", name="Branch before this message").click()
            await expect(said(page)).to_have_text(["first", "One."])
            await expect(page.get_by_role("textbox", name="Message")).to_have_value("second")


async def test_an_answer_that_broke_off_is_tried_again(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer([CutAfter(3)] * 8 + ["Whole."]) as model:
        with serving_model(tmp_path, model) as server:
            page = await visitor.open(server.url)
            await say(page, "count")
            for _ in range(9):
                broke = page.get_by_role("alert").get_by_role("button", name="Try again")
                await expect(broke.or_(page.get_by_text("Whole."))).to_be_visible()
                if await broke.count() == 0:
                    break
                await broke.click()
                await expect(page.get_by_role("alert")).to_have_count(0)
            await expect(said(page)).to_have_text(["count", "Whole."])


async def test_messages_sent_meanwhile_wait_their_turn_and_can_be_taken_back(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer([Stall(Answer("one")), "two", "three"]) as model:
        with serving_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await say(page, "first")
            await expect(said(page)).to_have_text(["first", "one"])
            for text in ("second", "not this", "third"):
                await say(page, text)
            waiting = page.get_by_role("list", name="Queued messages").get_by_role("listitem")
            await expect(waiting).to_have_text(["Queued:second", "Queued:not this", "Queued:third"])
            assert await serious_violations(page) == []
            await page.get_by_role("button", name="Cancel “not this”").click()
            await expect(waiting).to_have_text(["Queued:second", "Queued:third"])

            await page.reload()
            await expect(waiting).to_have_text(["Queued:second", "Queued:third"])
            model.release()
            await expect(said(page)).to_have_text(["first", "one", "second", "two", "third", "three"])
            await expect(waiting).to_have_count(0)
            await until_answered(page)


async def choose(page: Page, name: str) -> None:
    """Choose a send option; the choice is remembered."""
    await page.get_by_role("textbox", name="Message").fill("x")
    await page.get_by_role("button", name="Send options").click()
    await page.get_by_role("menuitemradio", name=name).click()


async def test_a_message_interrupts_the_answer_under_way(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer([Stall(Answer("one")), "two"]) as model:
        with serving_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await say(page, "first")
            await expect(said(page)).to_have_text(["first", "one"])
            await choose(page, "Interrupt")
            await say(page, "second")
            await expect(said(page)).to_have_text(["first", "one", "second", "two"])
            await page.reload()
            await expect(said(page)).to_have_text(["first", "one", "second", "two"])


async def test_a_message_joins_what_the_agent_does(tmp_path: Path, visitor: Visitor) -> None:
    waits = calling("bash", description="Wait", command="echo $((40 + 2)); until [ -e go ]; do sleep 0.05; done")
    async with ScriptedServer([waits, "Both done."]) as model:
        with serving_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await say(page, "first")
            await expect(page.get_by_text("42", exact=True)).to_be_visible()  # then its folder is there
            await choose(page, "Add to this run")
            await say(page, "and the other thing")
            waiting = page.get_by_role("list", name="Queued messages")
            await expect(waiting).to_contain_text("Added to this run:and the other thing")
            thread = page.url.rsplit("/", 1)[1]
            (tmp_path / f"users/local/threads/{thread}/user-data/workspace/go").touch()
            await expect(said(page)).to_have_text(["first", "and the other thing", "Both done."])
            await expect(waiting).to_have_count(0)
            assert "and the other thing" in str(model.requests[-1].messages)
