"""Hostile artifacts in a real browser: none can act as the user, by URL or through the page."""

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
from tests.e2e.hostile_files import hostile_files
from tests.sandbox.support import ask
from tests.support import OpenHarness, browse

pytestmark = pytest.mark.timeout(300)

OUTPUTS = "/mnt/user-data/outputs"
THREAD_SEARCH = ("POST", "/api/langgraph/threads/search?")
"""The request with which the page lists threads."""
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
class AttackTarget:
    """A server that records requests, and has a thread with hostile files."""

    url: str
    harness: Harness
    requests: list[tuple[str, str]] = field(default_factory=list)

    def file_url(self, name: str) -> str:
        return f"{self.url}/api/threads/t/artifacts{quote(f'{OUTPUTS}/{name}')}"

    async def assert_no_attack(self) -> None:
        """Assert that no file sent a request or changed data."""
        expected = [request for request in self.requests if request[0] in ("GET", "HEAD") or request == THREAD_SEARCH]
        assert [request for request in self.requests if request not in expected or "pwned" in request[1]] == []
        threads = await self.harness.threads.search(LOCAL_USER, 100, 0)
        assert [thread.thread_id for thread in threads] == ["t"]


def record_requests(requests: list[tuple[str, str]], app: ASGIApp) -> ASGIApp:
    """Wrap the application and record method and URL of every request."""

    async def record(scope: Scope, receive: Receive, send: Send) -> None:
        requests.append((scope.get("method", ""), f"{scope['path']}?{scope.get('query_string', b'').decode()}"))
        await app(scope, receive, send)

    return record


@pytest_asyncio.fixture(loop_scope="session")
async def target(harness_saying: OpenHarness) -> AsyncIterator[AttackTarget]:
    files = hostile_files()
    assert len(files) >= 15
    paths = [f"{OUTPUTS}/{name}" for name in files]
    model = ScriptedModel.saying(calling("present_files", filepaths=paths), "There you are.")
    requests: list[tuple[str, str]] = []
    async with harness_saying(model) as harness, browse(harness, around=partial(record_requests, requests)) as http:
        thread = await harness.threads.create(LOCAL_USER, "t", {}, may_exist=False)
        for name, content in files.items():
            await harness.files_of(thread).write(f"{OUTPUTS}/{name}", content)
        await ask(harness)
        yield AttackTarget(str(http.base_url), harness, requests)


@pytest_asyncio.fixture(loop_scope="session")
async def context(browser: Browser, target: AttackTarget) -> AsyncIterator[BrowserContext]:
    """A browser context with a secret in storage and cookies."""
    context = await browser.new_context(locale="en-US", accept_downloads=True)
    context.set_default_timeout(15_000)
    page = await context.new_page()
    await page.goto(target.url)
    await page.evaluate("localStorage.setItem('secret', 'canary'); document.cookie = 'session=canary; path=/'")
    await page.close()
    target.requests.clear()
    yield context
    await context.close()


async def open_url(page: Page, url: str) -> None:
    """Open a URL; downloads leave the page unchanged."""
    with suppress(Error):
        await page.goto(url, wait_until="load")


async def test_files_opened_by_url_run_no_attack(target: AttackTarget, context: BrowserContext) -> None:
    page = await context.new_page()
    for name in hostile_files():
        await open_url(page, target.file_url(name))
        await open_url(page, f"{target.file_url(name)}?download=true")
    await target.assert_no_attack()
    await assert_no_worker(target, context)
    assert sum("/artifacts/" in path for _, path in target.requests) >= 2 * len(hostile_files())


async def test_inline_files_have_an_opaque_origin(target: AttackTarget, context: BrowserContext) -> None:
    page = await context.new_page()
    for name in ("script.js", "sniffed.txt", "page", "real.png"):
        await open_url(page, target.file_url(name))
        assert await page.evaluate("self.origin") == "null"
        assert (
            await page.evaluate("(() => { try { return localStorage.length; } catch { return 'refused'; } })()")
            == "refused"
        )


async def test_files_embedded_in_our_page_run_no_attack(target: AttackTarget, context: BrowserContext) -> None:
    page = await context.new_page()
    await page.goto(target.url)
    target.requests.clear()
    for name in hostile_files():
        await page.evaluate(EMBED, target.file_url(name))
    await target.assert_no_attack()
    assert await page.evaluate("localStorage.getItem('secret')") == "canary"
    await assert_no_worker(target, context)


async def test_files_embedded_in_a_page_without_csp_run_no_attack(
    target: AttackTarget, context: BrowserContext
) -> None:
    page = await context.new_page()
    await page.route("**/bare", lambda route: route.fulfill(body="<!doctype html><body>", content_type="text/html"))
    await page.goto(f"{target.url}/bare")
    for name in hostile_files():
        await page.evaluate(EMBED, target.file_url(name))
    await target.assert_no_attack()
    await assert_no_worker(target, context)


async def test_presented_files_opened_from_the_page_run_no_attack(
    target: AttackTarget, context: BrowserContext
) -> None:
    page = await context.new_page()
    await page.goto(f"{target.url}/threads/t")
    cards = page.get_by_role("list", name="Files")
    await expect(cards.get_by_role("listitem")).to_have_count(len(hostile_files()))
    await expect(cards.get_by_role("img", name="real.png")).to_be_visible()
    await cards.get_by_role("img", name="real.png").click()
    await expect(page.get_by_role("dialog", name="real.png").get_by_role("img")).to_be_visible()
    await page.keyboard.press("Escape")
    for link in await cards.locator("a[download]").element_handles():
        assert await (await download(page, link)).path()
    await target.assert_no_attack()
    await assert_no_worker(target, context)


async def test_files_previewed_by_url_run_no_attack(target: AttackTarget, context: BrowserContext) -> None:
    page = await context.new_page()
    for name in hostile_files():
        await open_url(page, target.file_url(name).replace("/artifacts/", "/previews/"))
    await target.assert_no_attack()
    await assert_no_worker(target, context)


async def test_files_opened_in_the_panel_run_no_attack(target: AttackTarget, context: BrowserContext) -> None:
    page = await context.new_page()
    await page.goto(f"{target.url}/threads/t")
    buttons = page.get_by_role("list", name="Files").get_by_role("button", name="Open ")
    await expect(buttons.first).to_be_visible()
    for button in await buttons.all():
        await button.click()
        await page.wait_for_load_state("networkidle")
    await target.assert_no_attack()
    assert await page.evaluate("localStorage.getItem('secret')") == "canary"
    await assert_no_worker(target, context)


@pytest.mark.parametrize(
    ("name", "media_type"),
    [("page.html", "text/html"), ("drawing.svg", "image/svg+xml"), ("page.xhtml", "application/xhtml+xml")],
)
async def test_the_attacks_work_without_protection(
    target: AttackTarget, context: BrowserContext, name: str, media_type: str
) -> None:
    page, content = await context.new_page(), hostile_files()[name]
    await page.route("**/unguarded", lambda route: route.fulfill(body=content, content_type=media_type))
    async with page.expect_request(lambda request: request.method == "POST" and request.url.endswith("/api/threads")):
        await open_url(page, f"{target.url}/unguarded")


async def download(page: Page, link: ElementHandle) -> Download:
    """Click until a download starts; Chromium drops downloads beyond ten per second."""
    for _ in range(10):
        with suppress(TimeoutError):
            async with page.expect_download(timeout=1500) as started:
                await link.click()
            return await started.value
    raise AssertionError(f"nothing was downloaded from {await link.get_attribute('href')}")


async def assert_no_worker(target: AttackTarget, context: BrowserContext) -> None:
    """Assert that no service worker is registered, and that attacks would be recorded."""
    page = await context.new_page()
    await page.goto(target.url)
    assert await page.evaluate("navigator.serviceWorker.getRegistrations().then((found) => found.length)") == 0
    async with asyncio.timeout(10):
        while context.service_workers:  # the worker of a rejected registration is closed a moment later
            await page.evaluate("new Promise(requestAnimationFrame)")
    await page.route("**/control", lambda route: route.fulfill(body=CONTROL, content_type="text/html"))
    async with page.expect_response("**/api/pwned/control*"):
        await page.goto(f"{target.url}/control")
    assert ("GET", "/api/pwned/control?canary") in target.requests  # beside requests of the pages themselves
