"""Shared helpers of the browser tests: servers with scripted models, page visits and page actions."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from playwright.async_api import Browser, ConsoleMessage, Locator, Page, Request, expect

from deerflow.testing import ScriptedServer
from tests.browser import PATIENCE_MS
from tests.e2e.server_process import RunningServer, serve

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
AXE = Path(__file__).parents[2] / "web/node_modules/axe-core/axe.min.js"


@dataclass
class Visitor:
    """Opens pages and records console errors and requests to other origins."""

    browser: Browser
    problems: list[str] = field(default_factory=list)
    ignored_messages: str = "(?!)"  # a pattern; browsers also log each refused connection to the console

    async def open(self, url: str, **options: Any) -> Page:
        settings = {"viewport": {"width": 1280, "height": 800}, "locale": "en-US"} | options
        context = await self.browser.new_context(**settings)
        context.set_default_timeout(PATIENCE_MS)
        page = await context.new_page()
        origin = "/".join(url.split("/")[:3])
        page.on("console", self._record_console)
        page.on("pageerror", lambda error: self.problems.append(f"script error: {error}"))
        page.on("request", lambda request: self._record_request(request, origin))
        await page.goto(url)
        return page

    def _record_console(self, message: ConsoleMessage) -> None:
        address = str(message.location.get("url"))
        # A page loads some of its scripts in advance, also when the test has just stopped its server.
        late = "ERR_CONNECTION_REFUSED" in message.text and "/assets/" in address
        if message.type in ("error", "warning") and not late and not re.search(self.ignored_messages, message.text):
            self.problems.append(f"console {message.type}: {message.text} ({address})")

    def _record_request(self, request: Request, origin: str) -> None:
        if not request.url.startswith((f"{origin}/", "data:", "blob:")):
            self.problems.append(f"request to elsewhere: {request.url}")


@contextmanager
def serve_model(
    home: Path,
    model: ScriptedServer,
    *,
    port: int = 0,
    model_settings: Mapping[str, object] = {},
    others: Sequence[str] = (),
    **sections: object,
) -> Iterator[RunningServer]:
    """Start a server with the scripted model, also under the names `others`.

    Suggestions and memory extraction are off unless `sections` of the configuration say otherwise.
    """
    known = model.model_config().model_dump(mode="json", exclude_unset=True)
    entry = known | {"api_key": "scripted-key", **model_settings}
    config = home / "config.yaml"
    models = [entry, *(entry | {"name": name, "model": name} for name in others)]
    defaults = {"suggestions": {"enabled": False}, "memory": {"debounce_seconds": 3600}}
    settings = {**defaults, **sections, "models": models}
    config.write_text(yaml.safe_dump(settings))
    with serve(home, port=port, config=config) as server:
        yield server


@dataclass
class Person:
    """Uses the page and counts the inputs."""

    page: Page
    inputs: int = 0

    async def click(self, target: Locator) -> None:
        self.inputs += 1
        await target.click()

    async def paste(self, target: Locator, text: str) -> None:
        self.inputs += 1
        await target.fill(text)

    async def send(self, text: str) -> None:
        self.inputs += 1
        await send_message(self.page, text)


async def send_message(page: Page, text: str) -> None:
    await page.get_by_role("textbox", name="Message").fill(text)
    if await page.evaluate("matchMedia('(pointer: coarse)').matches"):
        await page.get_by_role("button", name="Send", exact=True).click()  # Enter makes a new line
    else:
        await page.keyboard.press("Enter")


async def wait_for_answer(page: Page) -> None:
    await expect(page.get_by_text("Response complete")).to_be_attached()


def approval_request(page: Page) -> Locator:
    return page.get_by_role("group", name="Approval needed")


async def check_both_themes(page: Page) -> None:
    """Check that axe finds nothing in the light and in the dark theme, without loading the page again."""
    for scheme in ("dark", "light"):
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        assert await serious_violations(page) == [], scheme


async def serious_violations(page: Page) -> list[str]:
    """Return the accessibility violations found by axe, of every impact."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE.read_text())
    found = await page.evaluate("axe.run({ resultTypes: ['violations'] })")
    return [
        f"{violation['id']}: {json.dumps([node['target'] for node in violation['nodes']])}"
        for violation in found["violations"]
    ]
