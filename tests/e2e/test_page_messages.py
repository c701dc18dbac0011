"""Message actions, queued messages and steering in a real browser against a real server."""

from pathlib import Path

from playwright.async_api import Locator, Page, expect

from deerflow.testing import Answer, CutAfter, ScriptedServer, Stall, calling
from tests.e2e.support import Visitor, send_message, serious_violations, serve_model, wait_for_answer


def shown_texts(page: Page) -> Locator:
    """Return the shown messages in order."""
    return page.locator("[data-role=user] [data-said], [data-role=assistant] .prose")


async def press_button(page: Page, name: str, nth: int = -1) -> None:
    """Press a button of a message with the keyboard, which needs no hovering."""
    await page.get_by_role("button", name=name).nth(nth).focus()
    await page.keyboard.press("Enter")


async def test_a_regenerated_answer_keeps_earlier_versions(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer(["One.", "Uno.", "Eins.", "Two."]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "count")
            await wait_for_answer(page)
            for answer in ("Uno.", "Eins."):
                await press_button(page, "Regenerate")
                await expect(shown_texts(page)).to_have_text(["count", answer])
                await wait_for_answer(page)
            for _ in range(2):
                versions = page.get_by_role("group", name="Versions")
                await expect(versions).to_have_text("3/3")
                await press_button(page, "Previous version")
                await expect(shown_texts(page)).to_have_text(["count", "Uno."])
                await press_button(page, "Previous version")
                await expect(shown_texts(page)).to_have_text(["count", "One."])
                await expect(versions).to_have_text("1/3")
                await expect(page.get_by_text("You’re viewing an earlier version.")).to_be_visible()
                assert await serious_violations(page) == []
                await page.reload()
            await press_button(page, "Previous version")
            await press_button(page, "Previous version")
            await send_message(page, "and then?")
            await wait_for_answer(page)
            await expect(shown_texts(page)).to_have_text(["count", "One.", "and then?", "Two."])
            contents = [message["content"] for message in model.requests[-1].messages if message["role"] != "system"]
            assert "One." in contents and "Eins." not in contents
            await page.reload()
            await expect(shown_texts(page)).to_have_text(["count", "One.", "and then?", "Two."])


async def test_an_answer_is_regenerated_with_another_model(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer(["One.", "Uno."]) as model:
        with serve_model(tmp_path, model, others=["spanish"], title={"enabled": False}) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "count")
            await wait_for_answer(page)
            await press_button(page, "More")
            await page.get_by_role("menuitem", name="Regenerate with spanish").click()
            await expect(shown_texts(page)).to_have_text(["count", "Uno."])
            await wait_for_answer(page)
            await expect(page.get_by_role("group", name="Versions")).to_have_text("2/2")
            await expect(page.get_by_role("button", name="Choose a model: spanish")).to_be_visible()
            await press_button(page, "Previous version")
            await expect(shown_texts(page)).to_have_text(["count", "One."])
        assert [request.model for request in model.requests] == [model.requests[0].model, "spanish"]
        assert model.requests[0].model != "spanish"


async def test_an_edited_message_replaces_the_original_version(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer(["One.", "Two.", "Three."]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "first")
            await wait_for_answer(page)
            await send_message(page, "secnod")
            await expect(shown_texts(page)).to_have_text(["first", "One.", "secnod", "Two."])
            await wait_for_answer(page)
            await press_button(page, "Edit message")
            editor = page.get_by_role("textbox", name="Edit message")
            await expect(editor).to_be_focused()
            await page.keyboard.press("Escape")
            await expect(editor).to_have_count(0)
            await press_button(page, "Edit message")
            await editor.fill("second")
            assert await serious_violations(page) == []
            await page.keyboard.press("Enter")
            await expect(shown_texts(page)).to_have_text(["first", "One.", "second", "Three."])
            await wait_for_answer(page)
            assert "secnod" not in str(model.requests[-1].messages)
            await page.reload()
            await expect(shown_texts(page)).to_have_text(["first", "One.", "second", "Three."])
            await press_button(page, "Previous version")
            await expect(shown_texts(page)).to_have_text(["first", "One.", "secnod", "Two."])
            await page.get_by_role("button", name="Show latest").click()
            await expect(shown_texts(page)).to_have_text(["first", "One.", "second", "Three."])


async def test_a_thread_can_be_branched_at_any_message(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer(["One.", "Two.", "Three."]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "first")
            await wait_for_answer(page)
            await send_message(page, "second")
            await expect(shown_texts(page)).to_have_text(["first", "One.", "second", "Two."])
            await wait_for_answer(page)
            thread_url = page.url
            await press_button(page, "More", 1)
            await page.get_by_role("menuitem", name="Branch into new thread").click()
            await expect(shown_texts(page)).to_have_text(["first", "One."])
            assert page.url != thread_url
            await send_message(page, "third")
            await expect(shown_texts(page)).to_have_text(["first", "One.", "third", "Three."])

            await page.goto(thread_url)
            await expect(shown_texts(page)).to_have_text(["first", "One.", "second", "Two."])
            await press_button(page, "More", 2)
            await page.get_by_role("menuitem", name="Branch before this message").click()
            await expect(shown_texts(page)).to_have_text(["first", "One."])
            await expect(page.get_by_role("textbox", name="Message")).to_have_value("second")


async def test_an_interrupted_answer_can_be_retried(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer([CutAfter(3)] * 8 + ["Whole."]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url)
            await send_message(page, "count")
            for _ in range(9):
                retry = page.get_by_role("alert").get_by_role("button", name="Try again")
                await expect(retry.or_(page.get_by_text("Whole."))).to_be_visible()
                if await retry.count() == 0:
                    break
                await retry.click()
                await expect(page.get_by_role("alert")).to_have_count(0)
            await expect(shown_texts(page)).to_have_text(["count", "Whole."])


async def test_messages_sent_during_a_run_are_queued_and_can_be_cancelled(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer([Stall(Answer("one")), "two", "three"]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "first")
            await expect(shown_texts(page)).to_have_text(["first", "one"])
            for text in ("second", "not this", "third"):
                await send_message(page, text)
            queued = page.get_by_role("list", name="Queued messages").get_by_role("listitem")
            await expect(queued).to_have_text(["Queued:second", "Queued:not this", "Queued:third"])
            assert await serious_violations(page) == []
            await page.get_by_role("button", name="Cancel “not this”").click()
            await expect(queued).to_have_text(["Queued:second", "Queued:third"])

            await page.reload()
            await expect(queued).to_have_text(["Queued:second", "Queued:third"])
            model.release()
            await expect(shown_texts(page)).to_have_text(["first", "one", "second", "two", "third", "three"])
            await expect(queued).to_have_count(0)
            await wait_for_answer(page)


async def choose_send_option(page: Page, name: str) -> None:
    """Choose a send option; the choice is remembered."""
    await page.get_by_role("textbox", name="Message").fill("x")
    await page.get_by_role("button", name="Send options").click()
    await page.get_by_role("menuitemradio", name=name).click()
    await expect(page.get_by_role("textbox", name="Message")).to_be_focused()


async def test_a_message_interrupts_the_active_answer(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer([Stall(Answer("one")), "two"]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "first")
            await expect(shown_texts(page)).to_have_text(["first", "one"])
            await choose_send_option(page, "Interrupt")
            await send_message(page, "second")
            await expect(shown_texts(page)).to_have_text(["first", "one", "second", "two"])
            await page.reload()
            await expect(shown_texts(page)).to_have_text(["first", "one", "second", "two"])


async def test_a_steering_message_joins_the_active_run(tmp_path: Path, visitor: Visitor) -> None:
    wait_call = calling("bash", description="Wait", command="echo $((40 + 2)); until [ -e go ]; do sleep 0.05; done")
    async with ScriptedServer([wait_call, "Both done."]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "first")
            await expect(page.get_by_text("42", exact=True)).to_be_visible()  # then the workspace exists
            await choose_send_option(page, "Add to this run")
            await send_message(page, "and the other thing")
            queued = page.get_by_role("list", name="Queued messages")
            await expect(queued).to_contain_text("Added to this run:and the other thing")
            await expect(queued.get_by_role("button")).to_be_enabled()  # then the server has accepted it
            thread = page.url.rsplit("/", 1)[1]
            (tmp_path / f"users/local/threads/{thread}/user-data/workspace/go").touch()
            await expect(shown_texts(page)).to_have_text(["first", "and the other thing", "Both done."])
            await expect(queued).to_have_count(0)
            assert "and the other thing" in str(model.requests[-1].messages)
