"""Approvals and command output in a real browser against a real server."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from playwright.async_api import expect

from deerflow.testing import Answer, ScriptedServer, calling, in_parallel
from tests.e2e.server_process import serve
from tests.e2e.support import PHONE, Visitor, approval_request, send_message, serious_violations

# A function of an installed package, which the server can import.
TOOL = {"name": "format_size", "group": "text", "use": "deerflow.agent_support.tools:format_size", "approval": "always"}
TOOL_CALL = calling("format_size", size=2048)


@asynccontextmanager
async def serve_approval_tool(home: Path, replies: Iterable[str | Answer]) -> AsyncIterator[tuple[str, ScriptedServer]]:
    """Start a server whose only tool needs approval, and return its address and model."""
    async with ScriptedServer(replies) as model:
        entry = model.model_config().model_dump(mode="json", exclude_unset=True)
        config = home / "config.yaml"
        defaults = {"suggestions": {"enabled": False}, "memory": {"debounce_seconds": 3600}}
        settings = {"models": [entry | {"api_key": "scripted-key"}], "tools": [TOOL], **defaults}
        config.write_text(yaml.safe_dump(settings))
        with serve(home, config=config) as server:
            yield server.url, model


def tool_results(model: ScriptedServer) -> list[str]:
    """Return the tool results of the last model request."""
    return [str(message["content"]) for message in model.requests[-1].messages if message["role"] == "tool"]


async def test_an_approved_call_is_executed(tmp_path: Path, visitor: Visitor) -> None:
    async with serve_approval_tool(tmp_path, [TOOL_CALL, "Two kilobytes."]) as (url, model):
        page = await visitor.open(url, reduced_motion="reduce")
        await send_message(page, "how much is it?")
        await expect(approval_request(page)).to_contain_text("2048")
        await expect(page.get_by_role("status").filter(has_text="Approval needed")).to_be_attached()
        assert await serious_violations(page) == []

        await approval_request(page).get_by_role("button", name="Allow once").focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("Two kilobytes.")).to_be_visible()
        assert tool_results(model) == ["2.0 KB"]
        await expect(approval_request(page)).to_have_count(0)
        await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
        for _ in range(2):
            card = page.get_by_role("button", name="Used format_size")
            await expect(card).to_contain_text("Allowed by you, ")
            await card.click()
            await expect(page.get_by_text("2.0 KB")).to_be_visible()
            await page.reload()


async def test_an_edited_call_is_executed_with_the_new_arguments(tmp_path: Path, visitor: Visitor) -> None:
    async with serve_approval_tool(tmp_path, [TOOL_CALL, "Five kilobytes."]) as (url, model):
        page = await visitor.open(url, reduced_motion="reduce")
        await send_message(page, "how much is it?")
        await approval_request(page).get_by_role("button", name="Edit").click()
        arguments = approval_request(page).get_by_role("textbox", name="Size")
        await expect(arguments).to_be_focused()
        assert await serious_violations(page) == []
        await arguments.fill("large")
        await page.keyboard.press("Control+Enter")
        await expect(approval_request(page).get_by_role("alert")).to_contain_text("Not a valid value")
        await arguments.fill("5120")
        await page.keyboard.press("Control+Enter")

        await expect(page.get_by_text("Five kilobytes.")).to_be_visible()
        assert tool_results(model)[0].endswith("5.0 KB")
        for _ in range(2):
            card = page.get_by_role("button", name="Used format_size Edited by you")
            await card.click()
            await expect(page.get_by_text("5120")).to_be_visible()
            await expect(page.get_by_text("5.0 KB", exact=True)).to_be_visible()
            await page.reload()


async def test_a_rejected_call_is_not_executed_and_the_model_gets_the_reason(tmp_path: Path, visitor: Visitor) -> None:
    async with serve_approval_tool(tmp_path, [TOOL_CALL, "As you like."]) as (url, model):
        page = await visitor.open(url, reduced_motion="reduce")
        await send_message(page, "how much is it?")
        await approval_request(page).get_by_role("button", name="Deny").click()
        await expect(approval_request(page).get_by_role("textbox", name="Reason")).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(approval_request(page).get_by_role("button", name="Deny")).to_be_focused()
        await page.keyboard.press("Enter")
        await page.keyboard.type("I know already")
        await page.keyboard.press("Enter")

        await expect(page.get_by_text("As you like.")).to_be_visible()
        assert tool_results(model)[0].endswith("I know already")
        await expect(page.get_by_role("button", name="You denied format_size")).to_be_visible()
        await expect(page.get_by_role("alert")).to_have_count(0)


async def test_an_approval_request_is_shown_again_after_a_reload(tmp_path: Path, visitor: Visitor) -> None:
    async with serve_approval_tool(tmp_path, [TOOL_CALL, "Two kilobytes."]) as (url, model):
        page = await visitor.open(url)
        await send_message(page, "how much is it?")
        await expect(approval_request(page)).to_be_enabled()
        await page.reload()
        await expect(approval_request(page)).to_contain_text("2048")
        await expect(page.get_by_text("Response stopped")).to_have_count(0)
        assert len(model.requests) == 1

        phone = await visitor.open(page.url, **PHONE, color_scheme="dark", locale="zh-CN")
        await expect(phone.get_by_role("group", name="需要批准")).to_be_visible()
        assert await serious_violations(phone) == []
        assert await phone.evaluate("document.documentElement.scrollWidth") <= 390
        await phone.get_by_role("button", name="允许一次").click()
        await expect(phone.get_by_text("Two kilobytes.")).to_be_visible()
        await page.reload()
        await expect(page.get_by_text("Two kilobytes.")).to_be_visible()
        await expect(approval_request(page)).to_have_count(0)


async def test_several_calls_are_decided_separately(tmp_path: Path, visitor: Visitor) -> None:
    both = in_parallel(TOOL_CALL, calling("format_size", size=3072))
    async with serve_approval_tool(tmp_path, [both, "Done."]) as (url, model):
        page = await visitor.open(url, reduced_motion="reduce")
        await send_message(page, "how much is it?")
        await expect(approval_request(page).get_by_role("listitem")).to_have_count(2)
        first, second = await approval_request(page).get_by_role("listitem").all()
        await first.get_by_role("button", name="Allow once").click()
        await expect(second.get_by_role("button", name="Allow once")).to_be_focused()
        await second.get_by_role("button", name="Deny").click()
        await page.keyboard.press("Enter")
        assert await serious_violations(page) == []
        await expect(approval_request(page).get_by_role("button", name="Continue")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("Done.")).to_be_visible()
        results = sorted(tool_results(model))
        assert results[0] == "2.0 KB" and results[1].startswith("User rejected")


async def test_a_message_continues_without_the_call(tmp_path: Path, visitor: Visitor) -> None:
    async with serve_approval_tool(tmp_path, [TOOL_CALL, "Never mind, then."]) as (url, _):
        page = await visitor.open(url)
        await send_message(page, "how much is it?")
        await expect(approval_request(page)).to_be_enabled()
        await send_message(page, "no, leave it")
        await expect(page.get_by_text("Never mind, then.")).to_be_visible()
        await expect(approval_request(page)).to_have_count(0)


async def test_command_output_is_streamed(tmp_path: Path, visitor: Visitor) -> None:
    command = "echo $((40 + 2)); until [ -e go ]; do sleep 0.05; done; echo $((40 + 3))"
    command_call = calling("bash", description="Count on", command=command)
    async with serve_approval_tool(tmp_path, [command_call, "Counted."]) as (url, _):
        page = await visitor.open(url, reduced_motion="reduce")
        await send_message(page, "count")
        running = page.get_by_role("button", name="Count on")
        await expect(running).to_have_attribute("aria-expanded", "true")
        await expect(page.get_by_text("42", exact=True)).to_be_visible()
        assert await serious_violations(page) == []

        thread = page.url.rsplit("/", 1)[1]
        (tmp_path / f"users/local/threads/{thread}/user-data/workspace/go").touch()
        await expect(page.get_by_text("Counted.")).to_be_visible()
        ran = page.get_by_role("button", name="Count on")
        await expect(ran).to_have_attribute("aria-expanded", "false")
        await ran.click()
        await expect(page.locator("pre").last).to_have_text("42\n43")


async def test_a_run_keeps_its_mode_after_approval_on_another_page(tmp_path: Path, visitor: Visitor) -> None:
    async with serve_approval_tool(tmp_path, [TOOL_CALL, "Two kilobytes."]) as (url, model):
        page = await visitor.open(url, reduced_motion="reduce")
        await page.get_by_role("button", name="Choose a mode:").click()
        await page.get_by_role("menuitemradio", name="Ultra").click()
        await send_message(page, "how much is it?")
        await expect(approval_request(page)).to_be_enabled()
        # In another browser, only the server knows the mode of the run.
        other = await visitor.open(page.url, reduced_motion="reduce")
        await approval_request(other).get_by_role("button", name="Allow once").click()
        await expect(other.get_by_text("Two kilobytes.")).to_be_visible()
        first, second = [{tool["function"]["name"] for tool in request.body["tools"]} for request in model.requests]
        assert {"write_todos", "task"} <= first
        assert second == first


async def test_a_tool_allowed_in_a_thread_runs_with_the_page_closed_until_it_is_revoked(
    tmp_path: Path, visitor: Visitor
) -> None:
    turns = [TOOL_CALL, "One.", TOOL_CALL, "Two.", TOOL_CALL, "Three."]
    async with serve_approval_tool(tmp_path, turns) as (url, model):
        page = await visitor.open(url, reduced_motion="reduce")
        await send_message(page, "how much is it?")
        request = approval_request(page)
        await expect(request).to_contain_text("later calls of format_size in this thread run without asking")
        assert await serious_violations(page) == []
        await request.get_by_role("button", name="Allow in this thread").click()
        await expect(page.get_by_text("One.")).to_be_visible()

        # Another browser knows nothing of the decision, and the page that made it is closed.
        other = await visitor.open(page.url, reduced_motion="reduce")
        await page.close()
        await send_message(other, "and now?")
        await expect(other.get_by_text("Two.")).to_be_visible()
        await expect(approval_request(other)).to_have_count(0)
        card = other.get_by_role("button", name="Used format_size").last
        await expect(card).to_contain_text("Allowed in this thread")

        await other.get_by_role("button", name="Thread actions").click()
        await other.get_by_role("menuitem", name="Allowed tools").click()
        dialog = other.get_by_role("dialog", name="Allowed tools")
        await expect(dialog.get_by_role("listitem")).to_contain_text("format_size")
        for scheme in ("light", "dark"):
            await other.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
            assert await serious_violations(other) == []
        await dialog.get_by_role("button", name="Revoke format_size").click()
        await expect(dialog).to_contain_text("Nothing is allowed yet.")
        await dialog.get_by_role("button", name="Close").click()
        await send_message(other, "once more?")
        await expect(approval_request(other)).to_be_enabled()
    assert len(model.requests) == 5


async def test_arguments_keep_their_line_breaks_and_a_denied_call_has_not_run(tmp_path: Path, visitor: Visitor) -> None:
    command = "echo first\necho second\ntouch made"
    script = calling("bash", description="Write two lines", command=command)
    policy = "rules: [{name: careful, tool: bash, outcome: ask, reason: commands are checked here}]"
    (tmp_path / "policy.yaml").write_text(policy)
    async with serve_approval_tool(tmp_path, [script, "Not done.", script, "Done."]) as (url, _):
        page = await visitor.open(url, reduced_motion="reduce", **PHONE)
        for decision, answer in (("Deny", "Not done."), ("Allow once", "Done.")):
            await page.get_by_role("textbox", name="Message").fill("write")
            await page.get_by_role("button", name="Send", exact=True).click()
            shown = approval_request(page).locator("pre, dd").filter(has_text="echo first").first
            await expect(shown).to_contain_text("echo first\necho second\ntouch made", use_inner_text=True)
            assert await page.evaluate("document.documentElement.scrollWidth") == 390
            assert await serious_violations(page) == []
            await approval_request(page).get_by_role("button", name=decision).click()
            if decision == "Deny":
                await approval_request(page).get_by_role("button", name="Deny").click()
            await expect(page.get_by_text(answer, exact=True)).to_be_visible()
            thread = page.url.rsplit("/", 1)[1]
            made = tmp_path / f"users/local/threads/{thread}/user-data/workspace/made"
            assert made.exists() is (decision == "Allow once")
