"""Signs of life while an agent works: who is thinking, running clocks and the docked plan."""

import re
from pathlib import Path

from playwright.async_api import expect

from deerflow.testing import Answer, ScriptedServer, Stall, calling
from tests.e2e.support import PHONE, Visitor, send_message, serious_violations, serve_model, wait_for_answer

SECONDS = re.compile(r"\d+ s")


def plan_call(*statuses: str) -> Answer:
    contents = ("Collect the figures", "Draw the chart", "Write the report")
    todos = [{"content": content, "status": status} for content, status in zip(contents, statuses, strict=True)]
    return calling("write_todos", todos=todos)


async def test_the_page_says_who_is_thinking_and_for_how_long(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer([Stall(), "Thought."]) as model:
        named = {"display_name": "Heron 2"}
        with serve_model(tmp_path, model, model_settings=named, title={"enabled": False}) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "think")
            waiting = page.get_by_role("paragraph").filter(has_text="Heron 2 is thinking…")
            await expect(waiting).to_contain_text(SECONDS)
            assert await serious_violations(page) == []
            shown = re.search(r"(\d+) s", await waiting.inner_text())
            assert shown is not None
            await expect(waiting).not_to_contain_text(f"{shown[1]} s")  # it runs
            model.release()
            await expect(waiting).to_have_count(0)


async def test_the_clock_of_a_tool_runs_until_it_has_finished(tmp_path: Path, visitor: Visitor) -> None:
    wait = calling(
        "bash", description="Wait for a file", command="echo $((40 + 2)); until [ -e go ]; do sleep 0.05; done"
    )
    async with ScriptedServer([wait, "Done."]) as model:
        with serve_model(tmp_path, model, title={"enabled": False}) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "wait")
            await expect(page.get_by_text("42", exact=True)).to_be_visible()  # then the workspace exists
            card = page.get_by_role("button", name="Wait for a file")
            await expect(card).to_contain_text(SECONDS)
            first = re.search(r"(\d+) s", await card.inner_text())
            assert first is not None
            await expect(card).not_to_contain_text(f"{first[1]} s")
            thread = page.url.rsplit("/", 1)[1]
            (tmp_path / f"users/local/threads/{thread}/user-data/workspace/go").touch()
            await expect(page.get_by_text("Done.", exact=True)).to_be_visible()
            took = re.search(r"\d+(\.\d)? s", await card.inner_text())
            assert took is not None
            await page.reload()
            await expect(card).to_contain_text(took[0])


async def test_the_plan_is_docked_at_the_composer_while_the_run_is_active(tmp_path: Path, visitor: Visitor) -> None:
    steps = [
        plan_call("in_progress", "pending", "pending"),
        Stall(plan_call("completed", "in_progress", "pending")),
        plan_call("completed", "completed", "completed"),
        "The report is written.",
    ]
    async with ScriptedServer(steps) as model:
        with serve_model(tmp_path, model, title={"enabled": False}) as server:
            page = await visitor.open(server.url, reduced_motion="reduce", **PHONE)
            await page.get_by_role("button", name="Choose a mode:").click()
            await page.get_by_role("menuitemradio", name="Pro").click()
            await page.get_by_role("textbox", name="Message").fill("write a report")
            await page.get_by_role("button", name="Send", exact=True).click()
            plan = page.get_by_role("region", name="Plan", exact=True)
            await expect(plan.get_by_role("button")).to_contain_text("1/3")
            await expect(plan).to_contain_text("Draw the chart")
            await plan.get_by_role("button").click()
            await expect(plan.get_by_role("listitem")).to_have_count(3)
            for scheme in ("light", "dark"):
                await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
                assert await serious_violations(page) == []
            assert await page.evaluate("document.documentElement.scrollWidth") == 390
            await page.reload()
            await expect(plan).to_contain_text("Draw the chart")
            model.release()
            await wait_for_answer(page)
            await expect(plan).to_have_count(0)
            await expect(page.get_by_role("list", name="To-do list")).to_be_visible()
