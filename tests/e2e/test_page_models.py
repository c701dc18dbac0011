"""Connecting a model in a real browser, with scripted providers."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Page, expect

from deerflow.testing import Answer, ScriptedServer, ServerRequest
from deerflow.testing.scripted_server import ServerReply
from tests.canary import files_with
from tests.e2e.server_process import RunningServer, serve
from tests.e2e.support import PHONE, Person, Visitor, send_message, serious_violations, wait_for_answer
from tests.models.checked_servers import answer_check

KEY = "sk-proj-canary-71c0ffee5a"


def reply(request: ServerRequest) -> ServerReply:
    """Pass a check, and answer messages of people."""
    is_person = any("Who answers?" in str(message.get("content")) for message in request.messages)
    return Answer("Hello from a real model.") if is_person else answer_check(request)


def provider(**settings: Any) -> ScriptedServer:
    return ScriptedServer([reply], endless=True, **{"key": KEY, "models": ["gpt-5-mini", "gpt-5"], **settings})


@contextmanager
def serve_openai(home: Path, model: ScriptedServer, config: Path | None = None) -> Iterator[RunningServer]:
    """Start a server without a model, for which the scripted one is OpenAI."""
    (home / ".env").write_text(f"OPENAI_BASE_URL={model.base_url}\n")
    with serve(home, config=config) as server:
        yield server


async def test_a_fresh_server_gives_a_real_answer_after_four_inputs(tmp_path: Path, visitor: Visitor) -> None:
    async with provider() as model:
        with serve_openai(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            person, started = Person(page), time.monotonic()
            await person.click(page.get_by_role("button", name="Connect a model"))
            await person.paste(page.get_by_role("dialog").get_by_role("textbox", name="API key"), KEY)
            await expect(page.get_by_text("It works.")).to_be_visible()
            await person.click(page.get_by_role("button", name="Save", exact=True))
            await expect(page.get_by_role("dialog")).to_have_count(0)
            await person.send("Who answers?")
            await expect(page.get_by_text("Hello from a real model.")).to_be_visible()
            assert (person.inputs, time.monotonic() - started < 60) == (4, True)
            await expect(page.get_by_text("Demo mode")).to_have_count(0)
            await wait_for_answer(page)
            assert KEY not in await page.content()
        assert model.rejected_keys == []
    assert files_with(KEY, tmp_path) == []


async def enter_key(page: Page, name: str, key: str) -> None:
    """Choose a provider, enter a key and check it."""
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name=name, exact=True).click()
    await dialog.locator("input[type=password]").fill(key)
    await page.keyboard.press("Enter")


async def test_failures_are_shown_in_the_language_of_the_page_and_a_model_can_be_named(
    tmp_path: Path, visitor: Visitor
) -> None:
    async with provider(listing=False) as model:
        with serve_openai(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce", locale="zh-CN", **PHONE)
            await page.get_by_role("button", name="连接模型").click()
            await enter_key(page, "OpenAI", "sk-wrong-0000000000000")
            await expect(page.get_by_role("alert")).to_contain_text("OpenAI 拒绝了此密钥。请重新完整复制密钥")
            assert await serious_violations(page) == []
            await page.get_by_label("API 密钥").fill(KEY)
            await page.keyboard.press("Enter")
            await expect(page.get_by_text("不提供模型列表")).to_be_visible()
            await page.get_by_label("模型名称").fill("gpt-5-mini")
            await page.keyboard.press("Enter")
            await expect(page.get_by_text("可以使用")).to_be_visible()
            assert await page.evaluate("document.documentElement.scrollWidth") == 390
            await page.emulate_media(color_scheme="dark", reduced_motion="reduce")
            assert await serious_violations(page) == []
            await page.get_by_role("button", name="保存", exact=True).click()
            await expect(page.get_by_role("button", name="选择模型: OpenAI · GPT-5 mini")).to_be_visible()


async def test_an_address_without_v1_is_mended_and_a_local_server_needs_no_key(
    tmp_path: Path, visitor: Visitor
) -> None:
    async with provider(key=None, models=["llama3"]) as model:
        with serve(tmp_path) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await page.get_by_role("button", name="Connect a model").click()
            dialog = page.get_by_role("dialog")
            for scheme in ("light", "dark"):
                await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
                assert await serious_violations(page) == []
            await dialog.get_by_role("button", name="Other address").click()
            await dialog.get_by_label("Address").fill("http://127.0.0.1:9")
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("alert")).to_contain_text("No model API answers at 127.0.0.1:9.")
            await page.get_by_text("Details").click()
            await expect(dialog).to_contain_text("GET http://127.0.0.1:9/models → wrong_host")
            await dialog.get_by_label("Address").fill(f"{model.base_url.removesuffix('/v1')}/chat/completions")
            await page.keyboard.press("Enter")
            await expect(dialog).to_contain_text("The address had no /v1, so it was added.")
            await expect(dialog).to_contain_text(f"Address used: {model.base_url}")
            assert await serious_violations(page) == []
            await page.keyboard.press("Enter")  # the focus is on the button that saves
            await expect(dialog).to_have_count(0)
            await send_message(page, "Who answers?")
            await expect(page.get_by_text("Hello from a real model.")).to_be_visible()


async def test_a_model_of_config_yaml_wins_and_the_settings_show_it(tmp_path: Path, visitor: Visitor) -> None:
    visitor.ignored_messages = "the server responded with a status of 4"
    config = tmp_path / "config.yaml"
    config.write_text(
        "# by hand\nmemory: {enabled: false}\nmodels:\n"
        "  - {name: gpt-5, use: 'deerflow.models.demo:DemoChatModel', model: demo, display_name: From the file}\n"
    )
    before = config.read_bytes()
    async with provider() as model:
        with serve_openai(tmp_path, model, config) as server:
            page = await visitor.open(f"{server.url}/settings", reduced_motion="reduce")
            await page.get_by_role("button", name="Add a model").click()
            await enter_key(page, "OpenAI", KEY)
            await page.get_by_role("checkbox", name="GPT-5 gpt-5").check()
            await page.get_by_role("button", name="Save 2 models").click()
            dialog = page.get_by_role("dialog")
            await expect(dialog.get_by_role("alert")).to_contain_text("config.yaml has a model named gpt-5.")
            await dialog.get_by_role("button", name="Close").last.click()

            saved = page.get_by_role("region", name="Connected providers")
            await expect(saved).to_contain_text("Key set")
            assert KEY not in await page.content()
            await expect(saved).to_contain_text("It’s used instead of the saved one.")
            for scheme in ("light", "dark"):
                await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
                assert await serious_violations(page) == []
            await saved.get_by_role("button", name="Test").click()
            await expect(saved).to_contain_text("It works.")
            await saved.get_by_role("button", name="Replace key").click()
            await saved.get_by_label("New API key").fill("sk-other-1234567890")
            await page.keyboard.press("Enter")
            await expect(saved.get_by_label("New API key")).to_have_count(0)
            await saved.get_by_role("button", name="Test").click()
            await expect(saved.get_by_role("alert")).to_contain_text("OpenAI refused the key.")
            await saved.get_by_role("button", name="Remove gpt-5", exact=True).click()
            await expect(saved).not_to_contain_text("It’s used instead of the saved one.")
            await saved.get_by_role("button", name="Remove", exact=True).click()
            await saved.get_by_role("alert").get_by_role("button", name="Remove").click()
            await expect(saved).to_have_count(0)
    assert config.read_bytes() == before


async def test_a_server_on_this_machine_is_a_tile_and_needs_no_key(tmp_path: Path, visitor: Visitor) -> None:
    async with provider(key=None, models=["llama3", "qwen3"]) as model:
        (tmp_path / ".env").write_text(f"OLLAMA_HOST={model.base_url.removesuffix('/v1')}\n")
        with serve(tmp_path) as server:
            page = await visitor.open(f"{server.url}/settings", reduced_motion="reduce")
            await page.get_by_role("button", name="Add a model").click()
            dialog = page.get_by_role("dialog")
            await dialog.get_by_role("button", name=re.compile("Ollama.*2 models")).click()
            await expect(dialog).to_contain_text("It works.")
            assert await serious_violations(page) == []
            await dialog.get_by_role("button", name="Save", exact=True).click()
            await expect(dialog).to_have_count(0)
            await expect(page.get_by_role("region", name="Connected providers")).to_contain_text("Ollama")
            await page.goto(server.url)
            await send_message(page, "Who answers?")
            await expect(page.get_by_text("Hello from a real model.")).to_be_visible()


async def test_prices_context_windows_and_the_page_of_keys_are_shown_and_models_are_shared(
    tmp_path: Path, visitor: Visitor
) -> None:
    async with provider() as model:
        with serve_openai(tmp_path, model) as server:
            page = await visitor.open(f"{server.url}/settings", reduced_motion="reduce")
            await page.get_by_role("button", name="Add a model").click()
            dialog = page.get_by_role("dialog")
            await dialog.get_by_role("button", name="OpenAI", exact=True).click()
            link = dialog.get_by_role("link", name=re.compile("key"))
            assert (await link.get_attribute("href") or "").startswith("https://platform.openai.com/")
            await dialog.locator("input[type=password]").fill(KEY)
            await page.keyboard.press("Enter")
            row = dialog.get_by_role("listitem").filter(has=page.get_by_role("checkbox", name="GPT-5 mini gpt-5-mini"))
            await expect(row).to_contain_text("400K context")
            await expect(row).to_contain_text(re.compile(r"\$0\.25.*\$2"))
            await dialog.get_by_role("button", name="Save", exact=True).click()
            await expect(dialog).to_have_count(0)
            # Without login there is nobody to share with.
            saved = page.get_by_role("region", name="Connected providers")
            share = page.get_by_role("switch", name="Share the models of OpenAI")
            await expect(saved).to_contain_text("Key set")
            await expect(share).to_have_count(0)
            await page.get_by_role("button", name="Require a login").click()
            await page.get_by_label("E-mail address").fill("ann@example.com")
            await page.get_by_label("assword").fill("correct horse battery")
            await page.get_by_role("button", name="Create the first account").click()
            await expect(page.get_by_role("textbox", name="Message")).to_be_visible()
            await page.goto(f"{server.url}/settings")
            await expect(share).to_have_attribute("aria-checked", "false")
            await share.click()
            await expect(share).to_have_attribute("aria-checked", "true")
            await page.reload()
            await expect(share).to_have_attribute("aria-checked", "true")
            assert await serious_violations(page) == []
