"""Activity of an agent in a real browser: reasoning, todos, file changes, errors and questions."""

from pathlib import Path

from playwright.async_api import Page, expect

from deerflow.testing import Answer, ScriptedServer, Stall, calling, in_parallel
from tests.e2e.support import Visitor, send_message, serious_violations, serve_model, wait_for_answer

WORKSPACE = "/mnt/user-data/workspace"
IMAGE_PATH = "/mnt/user-data/outputs/dot.png"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
RICH_ANSWER = f"""Look:

![a dot]({IMAGE_PATH})

![elsewhere](https://example.org/plot.png)

| month | sales |
|---|---:|
| May | 12 |

```python
print("two")
```
"""


def todos_call(*statuses: str) -> Answer:
    return calling(
        "write_todos",
        todos=[{"content": f"Step {number}", "status": arguments} for number, arguments in enumerate(statuses)],
    )


def command_call(command: str) -> Answer:
    return calling("bash", description=f"Do {command}", command=command)


REPLIES = [
    todos_call("in_progress", "pending"),
    calling("write_file", description="Begin", path=f"{WORKSPACE}/notes.md", content="one\ntwo\nthree\n"),
    Stall(
        calling("str_replace", description="Mend", path=f"{WORKSPACE}/notes.md", old_str="one\ntwo", new_str="one\n2")
    ),
    command_call("cat nothing"),
    command_call(f"echo {PIXEL} | base64 -d > {IMAGE_PATH}"),
    todos_call("completed", "completed"),
    RICH_ANSWER,
]


async def choose_mode(page: Page, name: str) -> None:
    await page.get_by_role("button", name="Choose a mode:").click()
    await page.get_by_role("menuitemradio", name=name).click()


async def test_reasoning_is_collapsed_while_it_streams(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer([Stall(Answer(reasoning="Let me see what there is."))]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "think")
            thinking = page.get_by_role("article").get_by_role("button", name="Thinking")
            await expect(thinking).to_have_attribute("aria-expanded", "false")
            reasoning = page.get_by_text("Let me see what there is.")
            await expect(reasoning).to_have_count(0)
            await thinking.click()
            await expect(reasoning).to_be_visible()
            model.release()
            await expect(page.get_by_role("button", name="Reasoning")).to_have_attribute("aria-expanded", "true")


async def test_todos_file_changes_errors_and_results_are_shown(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer(REPLIES) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(
                server.url, reduced_motion="reduce", permissions=["clipboard-read", "clipboard-write"]
            )
            await choose_mode(page, "Pro")
            await send_message(page, "work")
            todos = page.get_by_role("list", name="To-do list")
            await expect(todos.get_by_role("img", name="In progress")).to_have_count(1)
            await expect(page.get_by_role("button", name="Editing notes.md")).to_be_visible()
            model.release()
            await wait_for_answer(page)

            for scheme in ("light", "dark"):
                await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                await expect(todos.get_by_role("img", name="Done")).to_have_count(2)
                await page.get_by_role("button", name="Worked").click()
                await page.get_by_role("button", name="Edited notes.md").click()
                lines = page.locator("pre").filter(has_text="−").locator("div")
                await expect(lines).to_have_text([" one", "−two", "+2"])
                failed = page.get_by_role("button", name="cat nothing")
                await expect(failed).to_have_attribute("aria-expanded", "true")
                await expect(page.get_by_text("No such file or directory")).to_be_visible()
                await expect_rich_answer(page)
                assert await serious_violations(page) == []
                await page.reload()


async def expect_rich_answer(page: Page) -> None:
    answer = page.locator("[data-role=assistant] .prose").last
    picture = answer.get_by_role("img", name="a dot")
    await expect(picture).to_have_js_property("naturalWidth", 1)
    await expect(answer.get_by_role("link", name="Image: elsewhere")).to_be_visible()
    await expect(answer.get_by_role("img")).to_have_count(1)
    await expect(answer.get_by_role("cell", name="12")).to_have_css("text-align", "right")
    await answer.get_by_role("button", name="Copy code").click()
    await expect(answer.get_by_role("button", name="Copied")).to_be_visible()
    assert (await page.evaluate("navigator.clipboard.readText()")).strip() == 'print("two")'


async def test_several_questions_are_one_form_that_is_shown_again_after_a_reload(
    tmp_path: Path, visitor: Visitor
) -> None:
    audience = {"question": "Who is it for?", "options": ["My team", "A customer"]}
    questions = [{**audience, "clarification_type": "approach_choice"}] + [
        {"question": question, "clarification_type": "missing_info"} for question in ("By when?", "How long?")
    ]
    question_calls = in_parallel(*(calling("ask_clarification", **arguments) for arguments in questions))
    async with ScriptedServer([question_calls, "On it."]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "write a report")
            form = page.get_by_role("form", name="The agent has 3 questions")
            await expect(form).to_be_visible()
            await page.reload()
            await form.get_by_role("button", name="A customer").click()
            await form.get_by_role("group", name="By when?").get_by_role("textbox").fill("Friday")
            await expect(form).to_contain_text("2 of 3 answered")
            assert await serious_violations(page) == []
            await page.keyboard.press("Enter")

            expected = "Who is it for?\n→ A customer\n\nBy when?\n→ Friday"
            await expect(page.get_by_text("On it.")).to_be_visible()
            assert model.requests[-1].messages[-1]["content"] == expected
            await page.reload()
            chosen = page.get_by_role("group", name="Who is it for?")
            await expect(chosen.get_by_role("button", name="Selected: A customer")).to_be_disabled()
            await expect(page.get_by_role("group", name="How long?")).to_be_visible()
            await expect(form).to_have_count(0)
