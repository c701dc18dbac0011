"""A page and the network: away for a while, and never asked for what is elsewhere."""

from pathlib import Path

from playwright.async_api import Page, Request, expect

from deerflow.testing import Answer, ScriptedServer, Stall, calling
from tests.e2e.stage import Visitor, serious_violations
from tests.e2e.test_page import say, serving_model, until_answered

# What an answer might have a browser fetch.
TEMPTING = """![plot](https://example.org/a.png) <img src="https://example.org/b.png">
<link rel="stylesheet" href="https://example.org/c.css"> [link](https://example.org/d)
[citation:Heat](https://example.org/e)

$\\includegraphics{https://example.org/f.png}$
"""
OUTPUTS = "/mnt/user-data/outputs"
VIEWS = ["/agents", "/settings", "/nowhere"]


async def test_what_is_loaded_is_read_offline_and_the_page_comes_back_by_itself(
    tmp_path: Path, visitor: Visitor
) -> None:
    visitor.tolerated = "Failed to load resource"
    async with ScriptedServer(["One.", "Two.", Stall(Answer("three four")), "Five."]) as model:
        with serving_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await say(page, "first thread")
            await until_answered(page)
            await page.get_by_role("link", name="New thread").click()
            await say(page, "second thread")
            await until_answered(page)
            await say(page, "go on")
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
            await say(page, "and then?")
            await expect(page.get_by_text("Five.")).to_be_visible()


async def test_nothing_is_asked_of_anybody_else_on_any_view(tmp_path: Path, visitor: Visitor) -> None:
    write = calling("write_file", description="Write", path=f"{OUTPUTS}/page.html", content="<p>Hello</p>")
    shows = calling("present_files", filepaths=[f"{OUTPUTS}/page.html"])
    async with ScriptedServer([write, shows, TEMPTING]) as model:
        with serving_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            asked: list[Request] = []
            page.context.on("request", lambda request: asked.append(request))
            await note_violations(page)
            await page.reload()
            await say(page, "tempt me")
            await until_answered(page)
            thread = page.url
            places = [f"{thread}?panel={tab}" for tab in ("artifacts", "files", "run")]
            places.append(f"{thread}?panel=artifacts&file={OUTPUTS}/page.html".replace("/mnt", "%2Fmnt"))
            for place in [server.url, thread, *places, *(f"{server.url}{path}" for path in VIEWS)]:
                answer = await page.goto(place)
                assert answer is not None
                policy = answer.headers["content-security-policy"]
                assert "default-src 'none'" in policy and "unsafe" not in policy
                await expect(page.get_by_role("heading").first).to_be_visible()
                assert await page.evaluate("window.violations") == []
            assert len(asked) > 50
            own = (f"{server.url}/", "data:", "blob:")
            assert [each.url for each in asked if not each.url.startswith(own)] == []


async def note_violations(page: Page) -> None:
    """Note in every document what its own policy refused."""
    await page.context.add_init_script(
        """window.violations = [];
        addEventListener("securitypolicyviolation", (event) => window.violations.push(event.blockedURI));"""
    )
