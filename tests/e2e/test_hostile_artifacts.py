"""Files of agents, opened in a real browser: none of them can act as the user, by address or through the page."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import quote

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Download, ElementHandle, Error, Page, TimeoutError, expect
from starlette.types import ASGIApp, Receive, Scope, Send

from deerflow.domain.identity import LOCAL_USER
from deerflow.harness import Harness
from deerflow.testing import ScriptedModel, calling
from tests.e2e.hostile import hostile_files
from tests.sandbox.support import ask
from tests.support import OpenHarness, browse

pytestmark = pytest.mark.timeout(300)

OUTPUTS = "/mnt/user-data/outputs"
OF_THE_PAGE = ("POST", "/api/langgraph/threads/search?")
"""What the page itself asks to list the threads."""
CONTROL = "<!doctype html><script>fetch('/api/pwned/control?' + localStorage.getItem('secret'))</script>"
EMBED = """async (url) => {
  const tries = [];
  const element = (tag, fields) => {
    const made = Object.assign(document.createElement(tag), fields);
    tries.push(new Promise((done) => { made.onload = made.onerror = done; }));
    document.body.append(made);
  };
  for (const kind of ["text/javascript", "module"]) element("script", { src: url, type: kind });
  element("link", { rel: "stylesheet", href: url });
  element("link", { rel: "manifest", href: url });
  element("img", { src: url });
  for (const tag of ["iframe", "embed"]) element(tag, { src: url });
  element("object", { data: url });
  tries.push(import(url).catch(() => 0));
  tries.push(navigator.serviceWorker.register(url).catch(() => 0));
  tries.push(new Promise((done) => {
    try { const worker = new Worker(url); worker.onerror = worker.onmessage = done; } catch { done(); }
  }));
  await Promise.race([Promise.allSettled(tries), new Promise((done) => setTimeout(done, 400))]);
}"""


@dataclass
class Stage:
    """A server that notes what is asked of it, with hostile files in a thread."""

    url: str
    harness: Harness
    seen: list[tuple[str, str]] = field(default_factory=list)

    def address(self, name: str) -> str:
        return f"{self.url}/api/threads/t/artifacts{quote(f'{OUTPUTS}/{name}')}"

    async def assert_nobody_acted(self) -> None:
        """No file has asked for anything or changed anything."""
        harmless = [each for each in self.seen if each[0] == "GET" or each == OF_THE_PAGE]
        assert [each for each in self.seen if each not in harmless or "pwned" in each[1]] == []
        threads = await self.harness.threads.search(LOCAL_USER, 100, 0)
        assert [thread.thread_id for thread in threads] == ["t"]


def noting(seen: list[tuple[str, str]], app: ASGIApp) -> ASGIApp:
    """The application; the method and the address of every request is noted."""

    async def note(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append((scope.get("method", ""), f"{scope['path']}?{scope.get('query_string', b'').decode()}"))
        await app(scope, receive, send)

    return note


@pytest_asyncio.fixture(loop_scope="session")
async def stage(harness_saying: OpenHarness) -> AsyncIterator[Stage]:
    files = hostile_files()
    assert len(files) >= 15
    paths = [f"{OUTPUTS}/{name}" for name in files]
    model = ScriptedModel.saying(calling("present_files", filepaths=paths), "There you are.")
    seen: list[tuple[str, str]] = []
    async with harness_saying(model) as harness, browse(harness, around=partial(noting, seen)) as http:
        thread = await harness.threads.create(LOCAL_USER, "t", {}, may_exist=False)
        for name, content in files.items():
            await harness.files_of(thread).write(f"{OUTPUTS}/{name}", content)
        await ask(harness)
        yield Stage(str(http.base_url), harness, seen)


@pytest_asyncio.fixture(loop_scope="session")
async def context(browser: Browser, stage: Stage) -> AsyncIterator[BrowserContext]:
    """A browser that keeps something of the page's."""
    context = await browser.new_context(locale="en-US", accept_downloads=True)
    context.set_default_timeout(15_000)
    page = await context.new_page()
    await page.goto(stage.url)
    await page.evaluate("localStorage.setItem('secret', 'canary'); document.cookie = 'session=canary; path=/'")
    await page.close()
    stage.seen.clear()
    yield context
    await context.close()


async def visit(page: Page, url: str) -> None:
    """Open an address; one that is downloaded instead leaves the page where it was."""
    with suppress(Error):
        await page.goto(url, wait_until="load")


async def test_opened_by_address_no_file_acts(stage: Stage, context: BrowserContext) -> None:
    page = await context.new_page()
    for name in hostile_files():
        await visit(page, stage.address(name))
        await visit(page, f"{stage.address(name)}?download=true")
    await stage.assert_nobody_acted()
    await assert_no_worker(stage, context)
    assert sum("/artifacts/" in path for _, path in stage.seen) >= 2 * len(hostile_files())


async def test_a_text_in_place_has_no_origin_of_ours(stage: Stage, context: BrowserContext) -> None:
    page = await context.new_page()
    for name in ("script.js", "sniffed.txt", "page", "real.png"):
        await visit(page, stage.address(name))
        assert await page.evaluate("self.origin") == "null"
        assert (
            await page.evaluate("(() => { try { return localStorage.length; } catch { return 'refused'; } })()")
            == "refused"
        )


async def test_embedded_by_a_page_of_ours_no_file_acts(stage: Stage, context: BrowserContext) -> None:
    page = await context.new_page()
    await page.goto(stage.url)
    stage.seen.clear()
    for name in hostile_files():
        await page.evaluate(EMBED, stage.address(name))
    await stage.assert_nobody_acted()
    assert await page.evaluate("localStorage.getItem('secret')") == "canary"
    await assert_no_worker(stage, context)


async def test_embedded_by_a_page_without_a_policy_no_file_acts(stage: Stage, context: BrowserContext) -> None:
    page = await context.new_page()
    await page.route("**/bare", lambda route: route.fulfill(body="<!doctype html><body>", content_type="text/html"))
    await page.goto(f"{stage.url}/bare")
    for name in hostile_files():
        await page.evaluate(EMBED, stage.address(name))
    await stage.assert_nobody_acted()
    await assert_no_worker(stage, context)


async def test_presented_by_the_agent_and_opened_from_the_page_no_file_acts(
    stage: Stage, context: BrowserContext
) -> None:
    page = await context.new_page()
    await page.goto(f"{stage.url}/threads/t")
    cards = page.get_by_role("list", name="Files")
    await expect(cards.get_by_role("listitem")).to_have_count(len(hostile_files()))
    await expect(cards.get_by_role("img", name="real.png")).to_be_visible()
    async with context.expect_page() as opened:
        await cards.get_by_role("img", name="real.png").click()
    await (await opened.value).wait_for_load_state()
    await page.bring_to_front()  # a page behind another draws a frame a second, and a click waits for two
    for link in await cards.locator("a[download]").element_handles():
        assert await (await download(page, link)).path()
    await stage.assert_nobody_acted()
    await assert_no_worker(stage, context)


async def test_previewed_by_address_no_file_acts(stage: Stage, context: BrowserContext) -> None:
    page = await context.new_page()
    for name in hostile_files():
        await visit(page, stage.address(name).replace("/artifacts/", "/previews/"))
    await stage.assert_nobody_acted()
    await assert_no_worker(stage, context)


async def test_looked_at_in_the_panel_no_file_acts(stage: Stage, context: BrowserContext) -> None:
    page = await context.new_page()
    await page.goto(f"{stage.url}/threads/t")
    buttons = page.get_by_role("list", name="Files").get_by_role("button", name="Open ")
    await expect(buttons.first).to_be_visible()
    for button in await buttons.all():
        await button.click()
        await page.wait_for_load_state("networkidle")
    await stage.assert_nobody_acted()
    assert await page.evaluate("localStorage.getItem('secret')") == "canary"
    await assert_no_worker(stage, context)


@pytest.mark.parametrize(
    ("name", "media_type"),
    [("page.html", "text/html"), ("drawing.svg", "image/svg+xml"), ("page.xhtml", "application/xhtml+xml")],
)
async def test_the_same_files_act_where_nothing_keeps_them_from_it(
    stage: Stage, context: BrowserContext, name: str, media_type: str
) -> None:
    page, content = await context.new_page(), hostile_files()[name]
    await page.route("**/unguarded", lambda route: route.fulfill(body=content, content_type=media_type))
    async with page.expect_request(lambda request: request.method == "POST" and request.url.endswith("/api/threads")):
        await visit(page, f"{stage.url}/unguarded")


async def download(page: Page, link: ElementHandle) -> Download:
    """What a click brings; Chromium drops whatever a page begins beyond ten downloads a second."""
    for _ in range(10):
        with suppress(TimeoutError):
            async with page.expect_download(timeout=1500) as started:
                await link.click()
            return await started.value
    raise AssertionError(f"nothing was downloaded from {await link.get_attribute('href')}")


async def assert_no_worker(stage: Stage, context: BrowserContext) -> None:
    """No file has got hold of the page's requests; and had one acted, that would have been noted."""
    page = await context.new_page()
    await page.goto(stage.url)
    assert await page.evaluate("navigator.serviceWorker.getRegistrations().then((found) => found.length)") == 0
    async with asyncio.timeout(10):
        while context.service_workers:  # the worker of a rejected registration is closed a moment later
            await page.evaluate("new Promise(requestAnimationFrame)")
    await page.route("**/control", lambda route: route.fulfill(body=CONTROL, content_type="text/html"))
    async with page.expect_response("**/api/pwned/control*"):
        await page.goto(f"{stage.url}/control")
    assert stage.seen[-1] == ("GET", "/api/pwned/control?canary")
