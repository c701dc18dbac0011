"""Ratings, usage, sources, the thread menu, commands and notifications in a real browser against a real server."""

import re
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from deerflow.testing import Answer, ScriptedServer, Stall, calling, in_parallel
from tests.canary import files_with
from tests.e2e.support import PHONE, Visitor, send_message, serious_violations, serve_model, wait_for_answer
from tests.harness.recording_servers import open_recording_servers

PRICED = {
    "context_window": 20_000,
    "pricing": {"currency": "USD", "input": 100, "output": 100},
}
CANARY = "canary-temporary-1"
HIDE = """() => {
  Object.defineProperty(document, 'hidden', { value: true, configurable: true });
  document.dispatchEvent(new Event('visibilitychange'));
}"""
SHOW = HIDE.replace("true, conf", "false, conf")
FAKE_NOTIFICATION = """
window.permissionAsked = 0;
window.Notification = class {
  static permission = 'default';
  static async requestPermission() { window.permissionAsked++; return (this.permission = 'granted'); }
  constructor(title, options) { document.documentElement.dataset.notified = `${title}: ${options.body}`; }
  close() {}
};
"""
FAKE_SPEECH = """
window.SpeechRecognition = window.webkitSpeechRecognition = class {
  start() { window.recognition = this; }
  stop() { this.onend(); }
  abort() { this.onend(); }
};
"""


async def press_button(page: Page, name: str, nth: int = -1) -> None:
    """Press a button of a message with the keyboard, which needs no hovering."""
    await page.get_by_role("button", name=name).nth(nth).press("Enter")


async def test_an_answer_is_rated_commented_changed_and_unrated(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer(["One."]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "count")
            await wait_for_answer(page)
            await press_button(page, "Good response")
            good, bad = (page.get_by_role("button", name=name) for name in ("Good response", "Bad response"))
            await expect(good).to_have_attribute("aria-pressed", "true")
            await page.get_by_role("textbox", name="Comment").fill("Short.")
            assert await serious_violations(page) == []
            await page.get_by_role("button", name="Save").click()
            await expect(page.get_by_role("textbox", name="Comment")).to_have_count(0)
            await page.reload()
            await expect(good).to_have_attribute("aria-pressed", "true")
            await press_button(page, "Edit comment")
            await expect(page.get_by_role("textbox", name="Comment")).to_have_value("Short.")
            await page.keyboard.press("Escape")
            await press_button(page, "Bad response")
            await expect(bad).to_have_attribute("aria-pressed", "true")
            await expect(good).to_have_attribute("aria-pressed", "false")
            await page.get_by_role("button", name="No comment").click()
            await press_button(page, "Bad response")
            await expect(bad).to_have_attribute("aria-pressed", "false")
            await page.reload()
            await expect(bad).to_have_attribute("aria-pressed", "false")


async def test_usage_is_shown_by_answer_and_on_its_page(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer(["One.", "Two."]) as model:
        budget = {"max_tokens": 200_000, "max_cost": 5, "currency": "USD"}
        with serve_model(tmp_path, model, model_settings=PRICED, budget=budget) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "count the herons")
            await wait_for_answer(page)
            await page.get_by_role("button", name="Usage of this response").focus()
            await expect(page.get_by_role("button", name=re.compile(r"response: .+ in · .+ out .*\$"))).to_be_visible()
            await page.get_by_role("button", name=re.compile(r"^Context \d+% full")).click()
            card = page.get_by_role("dialog", name="Context")
            await expect(card).to_contain_text("20K tokens")
            await expect(card).to_contain_text("Cost of this thread$")
            assert await serious_violations(page) == []
            await page.keyboard.press("Escape")
            await expect(card).to_have_count(0)
            await page.get_by_role("link", name="Usage").click()
            by_model = page.get_by_role("region", name="By model").get_by_role("row")
            await expect(by_model.last).to_contain_text(re.compile(r"scripted.*\$"))
            await expect(page.get_by_role("row", name=re.compile("count the herons"))).to_be_visible()
            await expect(page.get_by_role("region", name="Budget per run")).to_contain_text("200K tokens · $5.00")
            budgeted = page.get_by_role("region", name="Monthly budget")
            await expect(budgeted).to_contain_text(re.compile(r"Spent today.*\$.*Spent this month.*\$"))
            await budgeted.get_by_label("Limit per month (USD)").fill("20")
            await expect(budgeted).to_contain_text("Left this month$20.00")
            await budgeted.get_by_label("Limit per month (USD)").fill("0")
            await expect(budgeted).to_contain_text("Over budget")
            await budgeted.get_by_label("Limit per month (USD)").fill("20")
            await page.reload()
            await expect(budgeted.get_by_label("Limit per month (USD)")).to_have_value("20")
            await expect(budgeted.get_by_role("meter")).to_be_visible()
            assert await serious_violations(page) == []
            await page.get_by_text("Last 30 days").click()
            days = page.get_by_role("region", name="By day").get_by_role("listitem")
            await expect(days).to_have_count(30)
            await page.get_by_role("link", name="count the herons").last.click()
            await expect(page.get_by_text("One.")).to_be_visible()
            phone = await visitor.open(f"{server.url}/usage", **(PHONE | {"locale": "zh-CN", "color_scheme": "dark"}))
            await expect(phone.get_by_role("heading", name="按对话")).to_be_visible()
            assert await phone.evaluate("document.documentElement.scrollWidth") <= 390
            assert await serious_violations(phone) == []


async def test_sources_are_numbered_and_say_what_was_checked(tmp_path: Path, visitor: Visitor) -> None:
    cited = "Cars [citation:ACEA](https://www.acea.auto/a), trains [citation:UIC](https://uic.org/b)."
    steps = [calling("verify_citations", text=cited), f"{cited} Again [citation:ACEA](https://www.acea.auto/a)."]
    async with ScriptedServer(steps) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "how many?")
            await wait_for_answer(page)
            await expect(page.locator(".citation")).to_have_text(["acea.auto 1", "uic.org 2", "acea.auto 1"])
            await page.get_by_role("button", name="2 sources").click()
            rows = page.get_by_role("region", name="2 sources").get_by_role("listitem")
            await expect(rows).to_have_count(2)
            await expect(rows.first).to_contain_text("Page was not read")
            await expect(rows.first.get_by_role("link", name="ACEA")).to_have_attribute(
                "href", "https://www.acea.auto/a"
            )
            assert await serious_violations(page) == []


async def test_sources_are_compared_with_the_pages_that_were_read(tmp_path: Path, visitor: Visitor) -> None:
    async with open_recording_servers() as servers:
        servers.pages["/a"] = "<p>Sales of electric cars rose by 12.4 percent in May.</p>"
        servers.pages["/b"] = "<p>Trains were late.</p>"
        cars, trains = servers.url("/a"), servers.url("/b")
        cited = (
            f"Sales rose by 12.4 percent in May. [citation:Cars]({cars})\n\n"
            f'"Every single train arrived on time" is what it says. [citation:Trains]({trains})'
        )
        fetch = {"name": "web_fetch", "group": "web", "use": "deerflow.community.web_fetch.tools:web_fetch_tool"}
        steps = [
            in_parallel(calling("web_fetch", url=cars), calling("web_fetch", url=trains)),
            calling("verify_citations", text=cited),
            cited,
        ]
        async with ScriptedServer(steps) as model:
            tools = [fetch | {"allow_private_addresses": True}]
            with serve_model(tmp_path, model, tools=tools, title={"enabled": False}) as server:
                page = await visitor.open(server.url, reduced_motion="reduce")
                await send_message(page, f"Compare {cars} and {trains}")
                await wait_for_answer(page)
                await page.get_by_role("button", name="2 sources").click()
                rows = page.get_by_role("region", name="2 sources").get_by_role("listitem")
                await expect(rows.first).to_contain_text("Verified")
                await expect(rows.last).to_contain_text("Quote not found")
                await expect(rows.first.get_by_role("link", name="Saved copy")).to_be_visible()
                for scheme in ("light", "dark"):
                    await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
                    assert await serious_violations(page) == []


async def test_the_title_opens_the_menu_of_the_thread(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer(["One."]) as model:
        with serve_model(tmp_path, model, sharing={"enabled": True}) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "count")
            await wait_for_answer(page)
            title = page.get_by_role("heading", level=1).get_by_role("button")
            await title.click()
            await page.get_by_role("menuitem", name="Rename").click()
            await page.get_by_role("textbox", name="Thread title").fill("Numbers")
            await page.keyboard.press("Enter")
            await expect(title).to_contain_text("Numbers")
            await page.get_by_role("button", name="Share", exact=True).click()
            await expect(page.get_by_role("dialog", name="Share “Numbers”")).to_be_visible()
            await page.keyboard.press("Escape")
            await title.click()
            assert await serious_violations(page) == []
            address = page.url
            await page.get_by_role("menuitem", name="Branch into new thread").click()
            await expect(page).not_to_have_url(address)
            await expect(page.get_by_text("One.")).to_be_visible()
            await title.click()
            await page.get_by_role("menuitem", name="Delete").click()
            await expect(page.get_by_text("Thread deleted")).to_be_visible()


async def test_commands_summarize_choose_a_model_set_a_goal_and_start_anew(tmp_path: Path, visitor: Visitor) -> None:
    answers = ["One.", "Two.", "Notes: two numbers were counted.", "Understood.", "Three."]
    async with ScriptedServer(answers) as model:
        with serve_model(tmp_path, model, others=["other"]) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            field = page.get_by_role("textbox", name="Message")
            for text in ("count one", "count two"):
                await send_message(page, text)
                await wait_for_answer(page)
            await field.press_sequentially("/com")
            await expect(page.get_by_role("option").filter(has_text="/compact")).to_be_visible()
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("status").filter(has_text="were summarized")).to_be_visible()
            line = page.locator("summary", has_text="Earlier messages were summarized")
            await line.click()
            await expect(page.get_by_text("two numbers were counted")).to_be_visible()
            await expect(page.locator("[data-said]")).to_have_text(["count one", "count two"])
            await send_message(page, "/goal Count to three")
            await wait_for_answer(page)
            await expect(page.locator("[data-said]").last).to_have_text("Goal: Count to three")
            asked = str(model.requests[-1].messages)
            assert "two numbers were counted" in asked and "count one" not in asked
            await field.press_sequentially("/model ")
            await page.get_by_role("option", name=re.compile("other")).click()
            await expect(page.get_by_role("button", name="Choose a model: other")).to_be_visible()
            await expect(field).to_have_value("")
            await send_message(page, "/new And then?")
            await expect(page.get_by_role("heading", name="What are we working on?")).to_be_visible()
            await expect(field).to_have_value("And then?")
            assert await serious_violations(page) == []


async def test_a_temporary_chat_survives_a_reload_and_leaves_nothing(tmp_path: Path, visitor: Visitor) -> None:
    visitor.ignored_messages = "404"
    async with ScriptedServer([f"{CANARY} answered.", "Kept."]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await page.get_by_role("switch", name="Temporary chat").click()
            await send_message(page, f"{CANARY} asked")
            await wait_for_answer(page)
            listed = page.get_by_role("navigation", name="Threads").get_by_role("listitem")
            await expect(page.get_by_text("Temporary chat: not listed")).to_be_visible()
            await expect(listed).to_have_count(0)
            assert await serious_violations(page) == []
            await page.reload()
            await expect(page.get_by_text(f"{CANARY} answered.")).to_be_visible()
            await expect(page.get_by_text("Temporary chat: not listed")).to_be_visible()
            await expect(listed).to_have_count(0)
            address = page.url
            async with page.expect_response(lambda response: response.request.method == "DELETE") as deleted:
                await page.get_by_role("button", name="Delete now").click()
            assert (await deleted.value).status in (202, 204)
            await send_message(page, "count")
            await wait_for_answer(page)
            await expect(listed.filter(has_text="count")).to_have_count(1)
            await page.goto(address)
            await expect(page.get_by_text("Thread not found")).to_be_visible()
            assert CANARY not in await page.evaluate("JSON.stringify({ ...localStorage, ...sessionStorage })")
    assert files_with(CANARY, tmp_path) == []


async def test_unseen_results_are_marked_and_notified(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer([Stall(Answer("One.")), Stall(Answer("Two."))]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await page.add_init_script(FAKE_NOTIFICATION)
            await page.goto(f"{server.url}/settings")
            switch = page.get_by_role("switch", name="Notify me when a task is done or needs me")
            await expect(switch).not_to_be_checked()
            assert await page.evaluate("window.permissionAsked") == 0
            await switch.click()
            await expect(switch).to_be_checked()
            assert await page.evaluate("window.permissionAsked") == 1
            assert await serious_violations(page) == []
            await page.get_by_role("link", name="New thread").click()
            await send_message(page, "count herons")
            await expect(page).to_have_title(re.compile("^● "))
            await expect(page.locator("[data-role=assistant] .prose")).to_have_text("One.")
            await page.evaluate(HIDE)
            model.release()
            await expect(page.locator("html")).to_have_attribute("data-notified", "Task done: count herons")
            row = page.get_by_role("link", name=re.compile("count herons"))
            await expect(row.get_by_role("img", name="New response")).to_be_visible()
            await page.evaluate(SHOW)
            await expect(row.get_by_role("img", name="New response")).to_have_count(0)
            await send_message(page, "again")
            await expect(page.locator("[data-role=assistant] .prose").last).to_have_text("Two.")
            await expect(row.get_by_role("img", name="Answering")).to_be_visible()
            await page.get_by_role("link", name="New thread").click()
            model.release()
            await page.reload()
            unread = row.get_by_role("img", name="New response")
            await expect(unread).to_be_visible()
            assert await serious_violations(page) == []
            await page.reload()
            await expect(unread).to_be_visible()
            await row.click()
            await expect(unread).to_have_count(0)


async def test_a_run_that_needs_an_answer_or_approval_is_notified(tmp_path: Path, visitor: Visitor) -> None:
    question = calling("ask_clarification", question="For whom?", clarification_type="missing_info")
    approval = calling("abspath", path=".")
    tools = [{"name": "abspath", "group": "files", "use": "os.path:abspath", "approval": "always"}]
    async with ScriptedServer([Stall(question), Stall(approval)]) as model:
        with serve_model(tmp_path, model, tools=tools) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await page.add_init_script(FAKE_NOTIFICATION)
            await page.goto(f"{server.url}/settings")
            await page.get_by_role("switch", name="Notify me when a task is done or needs me").click()
            for text, notified in (("asks me", "Question for you"), ("acts", "Approval needed")):
                await page.get_by_role("link", name="New thread").click()
                await send_message(page, text)
                await model.waiting.wait()
                await page.evaluate(HIDE)
                model.waiting.clear()
                model.release()
                await expect(page.locator("html")).to_have_attribute("data-notified", f"{notified}: {text}")
                await expect(page).to_have_title(re.compile(r"^\(\d\) "))
                await page.evaluate(SHOW)


async def test_a_changed_configuration_is_noticed_without_a_reload(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer([]) as model:
        with serve_model(tmp_path, model, model_settings={"display_name": "Heron"}) as server:
            config = tmp_path / "config.yaml"
            page = await visitor.open(server.url, reduced_motion="reduce")
            await page.clock.install()
            await page.reload()
            await expect(page.get_by_role("button", name="Choose a model: Heron")).to_be_visible()
            valid = config.read_text()
            config.write_text(f"nonsense: 1\n{valid}")
            await page.clock.fast_forward(16_000)
            banner = page.get_by_role("region", name="The configuration is invalid")
            await expect(banner).to_contain_text("config.yaml:1")
            await expect(banner).to_contain_text("nonsense")
            await expect(banner).to_contain_text("The previous settings are still in use.")
            assert await serious_violations(page) == []
            config.write_text(valid.replace("Heron", "Egret"))
            await page.clock.fast_forward(16_000)
            await expect(banner).to_have_count(0)
            await expect(page.get_by_role("button", name="Choose a model: Egret")).to_be_visible()
            await expect(page.get_by_text("Now answering: Egret")).to_be_visible()


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_speech_is_written_into_the_message(tmp_path: Path, visitor: Visitor, language: str) -> None:
    async with ScriptedServer(["One."]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, locale="zh-CN" if language == "zh" else "en-US")
            await page.add_init_script(FAKE_SPEECH)
            await page.reload()
            names = {"en": ("Dictate", "Stop dictating", "Message"), "zh": ("语音输入", "停止语音输入", "消息")}
            start, stop, message = names[language]
            await page.get_by_role("button", name=start).click()
            said = "window.recognition.onresult({ results: [[{ transcript: 'count' }], [{ transcript: ' herons' }]] })"
            await page.evaluate(said)
            await expect(page.get_by_role("textbox", name=message)).to_have_value("count herons")
            await page.get_by_role("button", name=stop).click()
            await expect(page.get_by_role("button", name=start)).to_be_visible()


async def test_selected_text_is_quoted_in_the_composer(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer(["Herons eat fish and frogs."]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "what do they eat?")
            await wait_for_answer(page)
            await page.locator("[data-role=assistant] .prose p").select_text()
            await page.get_by_role("button", name="Quote").click()
            field = page.get_by_role("textbox", name="Message")
            await expect(field).to_have_value("> Herons eat fish and frogs.\n\n")
            await expect(field).to_be_focused()
