"""The page offline, and requests to other origins."""

from pathlib import Path

from playwright.async_api import Page, Request, expect

from deerflow.testing import Answer, ScriptedServer, Stall, calling
from tests.e2e.support import Visitor, send_message, serious_violations, serve_model, wait_for_answer

# Content with external resources that a browser could load.
EXTERNAL_CONTENT = """![plot](https://example.org/a.png) <img src="https://example.org/b.png">
<link rel="stylesheet" href="https://example.org/c.css"> [link](https://example.org/d)
[citation:Heat](https://example.org/e)

$\\includegraphics{https://example.org/f.png}$
"""
OUTPUTS = "/mnt/user-data/outputs"
VIEWS = ["/agents", "/settings", "/nowhere"]


async def test_loaded_content_is_available_offline_and_the_page_reconnects(tmp_path: Path, visitor: Visitor) -> None:
    visitor.ignored_messages = "Failed to load resource"
    async with ScriptedServer(["One.", "Two.", Stall(Answer("three four")), "Five."]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "first thread")
            await wait_for_answer(page)
            await page.get_by_role("link", name="New thread").click()
            await send_message(page, "second thread")
            await wait_for_answer(page)
            await send_message(page, "go on")
            await expect(page.get_by_text("three four")).to_be_visible()

            await page.context.set_offline(True)
            await expect(page.get_by_text("You’re offline. Loaded content stays available.")).to_be_visible()
            assert await serious_violations(page) == []
            threads = page.get_by_role("navigation", name="Threads")
            for name, answer in (("first thread", "One."), ("Settings", "Appearance"), ("second thread", "three four")):
                await threads.get_by_role("link", name=name).click()
                await expect(page.get_by_text(answer, exact=True)).to_be_visible()

            model.release()
            await page.context.set_offline(False)
            await expect(page.get_by_text("You’re offline")).to_have_count(0)
            await expect(page.locator("[data-role=assistant] .prose")).to_have_text(["Two.", "three four"])
            await send_message(page, "and then?")
            await expect(page.get_by_text("Five.")).to_be_visible()


async def test_no_view_sends_requests_to_other_origins(tmp_path: Path, visitor: Visitor) -> None:
    write = calling("write_file", description="Write", path=f"{OUTPUTS}/page.html", content="<p>Hello</p>")
    present = calling("present_files", filepaths=[f"{OUTPUTS}/page.html"])
    async with ScriptedServer([write, present, EXTERNAL_CONTENT]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            requests: list[Request] = []
            page.context.on("request", lambda request: requests.append(request))
            await record_violations(page)
            await page.reload()
            await send_message(page, "tempt me")
            await wait_for_answer(page)
            thread = page.url.split("?")[0]  # the panel opens for the first file
            urls = [f"{thread}?panel={tab}" for tab in ("artifacts", "files", "run")]
            urls.append(f"{thread}?panel=artifacts&file={OUTPUTS}/page.html".replace("/mnt", "%2Fmnt"))
            for url in [server.url, thread, *urls, *(f"{server.url}{path}" for path in VIEWS)]:
                answer = await page.goto(url)
                assert answer is not None
                policy = answer.headers["content-security-policy"]
                assert "default-src 'none'" in policy and "unsafe" not in policy
                await expect(page.get_by_role("heading").first).to_be_visible()
                assert await page.evaluate("window.violations") == []
            assert len(requests) > 50
            own = (f"{server.url}/", "data:", "blob:")
            assert [request.url for request in requests if not request.url.startswith(own)] == []


async def record_violations(page: Page) -> None:
    """Record violations of the content security policy in every document."""
    await page.context.add_init_script(
        """window.violations = [];
        addEventListener("securitypolicyviolation", (event) => window.violations.push(event.blockedURI));"""
    )
