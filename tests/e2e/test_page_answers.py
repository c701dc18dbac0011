"""Rich answers in a real browser: formulas, diagrams, citations, durations and subagents."""

import asyncio
import re
from pathlib import Path
from urllib.parse import urljoin

from playwright.async_api import Page, expect

from deerflow.testing import Answer, ScriptedServer, ServerFault, Stall, calling, in_parallel, thinking
from tests.e2e.support import Visitor, send_message, serious_violations, serve_model, wait_for_answer

RICH_ANSWER = r"""The area is $\pi r^2$, and it costs $5 or $10.

$$\int_0^1 x^2\,dx = \frac{1}{3}$$

Heat rises [citation:On heat](https://example.org/heat) always.

```mermaid
graph TD
  A[Start] --> B{Is it?}
  B -->|yes| C[Done]
```

![a plot](https://example.org/plot.png)

| a | b | c | d | e | f | g | h | i | j |
|---|---|---|---|---|---|---|---|---|---|
| a long cell | a long cell | a long cell | a long cell | a long cell | a long cell | a long cell | a | b | c |
"""
NAMES = (re.compile("^Wait longer"), re.compile("^Wait (?!longer)"), re.compile("^Do not wait"))
MALICIOUS = """```mermaid
graph TD
  A["<img src=x onerror=alert(1)>"] --> B
  click A "javascript:alert(1)"
```

$\\href{javascript:alert(1)}{x}$ and $\\includegraphics{https://example.org/x.png}$
"""


async def test_formulas_diagrams_and_citations_render_under_the_strict_csp(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer([RICH_ANSWER]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "show me")
            await wait_for_answer(page)
            answer = page.locator("[data-role=assistant] .prose")
            await expect(answer.locator("math")).to_have_count(2)
            await expect(answer.locator("math mfrac")).to_have_count(1)
            await expect(answer).to_contain_text("it costs $5 or $10")
            diagram = answer.get_by_role("img", name="Diagram")
            await expect(diagram).to_be_visible(timeout=30_000)
            assert await diagram.evaluate("image => image.naturalWidth > 50")
            assert await diagram.evaluate("image => image.getBoundingClientRect().height < 500")
            await expect_drawing_to_follow_the_theme(page)
            await look_at_the_diagram(page)
            fonts = "document.fonts.ready.then(all => [...all].filter(f => f.status == 'loaded').map(f => f.family))"
            assert "STIX Two Math" in await page.evaluate(fonts)
            await expect(answer.get_by_role("link", name="Image: a plot")).to_be_visible()

            citation = answer.get_by_role("link", name="On heat")
            await citation.focus()
            await expect(answer.get_by_text("example.org", exact=True)).to_be_visible()
            assert await serious_violations(page) == []
            await page.set_viewport_size({"width": 390, "height": 844})
            width = "new Promise(requestAnimationFrame).then(() => document.documentElement.scrollWidth)"
            async with asyncio.timeout(30):
                while await page.evaluate(width) > 390:
                    continue
            # Words stay whole, and the frame of the table scrolls.
            frame = page.get_by_role("group", name="Table")
            assert await frame.evaluate("frame => frame.scrollWidth > frame.clientWidth")
            assert await frame.locator("td").first.evaluate("cell => getComputedStyle(cell).overflowWrap") == "normal"
            assert await serious_violations(page) == []


async def expect_drawing_to_follow_the_theme(page: Page) -> None:
    diagram = page.get_by_role("img", name="Diagram")
    light = await diagram.get_attribute("src")
    await page.emulate_media(color_scheme="dark")
    await expect(diagram).not_to_have_attribute("src", str(light))
    assert await serious_violations(page) == []
    await page.emulate_media(color_scheme="light")
    await expect(diagram).to_have_attribute("src", str(light))


async def look_at_the_diagram(page: Page) -> None:
    """Enlarge the diagram, zoom in and save it."""
    await page.get_by_role("button", name="Diagram", exact=True).click()
    dialog = page.get_by_role("dialog", name="Diagram")
    fitting = await dialog.get_by_role("img").evaluate("image => image.getBoundingClientRect().width")
    await dialog.get_by_role("button", name="Zoom in").click()
    assert await dialog.get_by_role("img").evaluate("image => image.getBoundingClientRect().width") > fitting
    assert await serious_violations(page) == []
    async with page.expect_download() as download:
        await dialog.get_by_role("button", name="Download SVG").click()
    assert (await (await download.value).path()).read_text().startswith("<svg")
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()


async def test_diagrams_and_formulas_run_no_scripts(tmp_path: Path, visitor: Visitor) -> None:
    visitor.ignored_messages = "inline event handler violates"  # logged by the frame that renders diagrams
    async with ScriptedServer([MALICIOUS]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            dialogs: list[str] = []
            page.on("dialog", lambda dialog: dialogs.append(dialog.message))
            await send_message(page, "show me")
            await wait_for_answer(page)
            await expect(page.get_by_role("img", name="Diagram").or_(page.locator("pre")).first).to_be_visible()
            await page.wait_for_load_state("networkidle")
            assert dialogs == []
            assert await page.locator(".prose a[href^=javascript], .prose [onerror], .prose svg script").count() == 0


async def test_durations_are_correct_after_a_reload(tmp_path: Path, visitor: Visitor) -> None:
    wait_call = in_parallel(
        calling("bash", description="Wait", command="sleep 1.2; echo done"),
        calling("bash", description="Wait longer", command="sleep 2.4; echo done"),
        calling("bash", description="Do not wait", command="echo now"),
    )
    reasoning = thinking("Let me see what there is to see.", Answer(("Seen", "."), delay_s=0.4))
    async with ScriptedServer([wait_call, reasoning]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await send_message(page, "wait")
            await wait_for_answer(page)
            seen: list[list[str]] = []
            for _ in range(2):
                # Finished steps are folded into one line.
                worked = page.get_by_role("button", name="Worked for")
                await worked.click()
                cards = [page.get_by_role("button", name=name) for name in NAMES]
                seen.append([" ".join((await card.inner_text()).split()) for card in (*cards, worked)])
                await expect(page.get_by_role("button", name="Thought for")).to_be_visible()
                assert await serious_violations(page) == []
                await page.reload()
            live, reloaded = seen
            assert live[:3] == reloaded[:3]
            durations = [int(times[3].split()[2]) for times in seen]
            assert abs(durations[0] - durations[1]) <= 1  # measured by two clocks, and rounded
            longer, shorter = (float(times.split()[-2]) for times in live[:2])
            assert longer >= 2.4 and longer > shorter >= 1.2


async def test_steps_of_subagents_are_shown_in_the_card_of_their_task(tmp_path: Path, visitor: Visitor) -> None:
    task_call = calling("task", description="Look around", prompt="Look around.", subagent_type="general-purpose")
    ls_call = calling("ls", description="Look", path="/mnt/user-data")
    async with ScriptedServer([task_call, ls_call, "Seen.", "Done."]) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await page.get_by_role("button", name="Choose a mode:").click()
            await page.get_by_role("menuitemradio", name="Ultra").click()
            await send_message(page, "look around")
            await wait_for_answer(page)
            for _ in range(2):
                card = page.get_by_role("button", name="Subagent finished Look around")
                await card.click()
                steps = page.get_by_role("list", name="Subagent steps").get_by_role("listitem")
                await expect(steps).to_have_text(["Listed /mnt/user-data"])
                await expect(page.locator("[data-role=assistant] .prose").first).to_have_text("Seen.")
                assert await serious_violations(page) == []
                await page.reload()


async def wait_until_idle(page: Page) -> None:
    """Wait until the thread that the page shows has no active run."""
    thread = urljoin(page.url, f"/api/threads/{page.url.rpartition('/')[2]}")
    async with asyncio.timeout(30):
        while (await (await page.request.get(thread)).json())["status"] == "busy":
            pass


async def test_a_batch_and_a_stopped_task_show_their_progress_also_after_a_reload(
    tmp_path: Path, visitor: Visitor
) -> None:
    task_arguments = {"prompt": "Sort {item}", "subagent_type": "general-purpose"}
    batch_call = calling(
        "task_batch", description="Sort letters", items=["a", "b", "c"], retries=0, concurrency=1, **task_arguments
    )
    task_call = calling("task", description="Look around", **{**task_arguments, "prompt": "Look around."})
    ls_call = calling("ls", description="Look", path="/mnt/user-data")
    replies = [batch_call, "Sorted.", ServerFault(400, "no"), "Sorted.", "Two of three.", task_call, ls_call, Stall()]
    async with ScriptedServer(replies) as model:
        with serve_model(tmp_path, model) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await page.get_by_role("button", name="Choose a mode:").click()
            await page.get_by_role("menuitemradio", name="Ultra").click()
            await send_message(page, "sort them")
            await wait_for_answer(page)
            await send_message(page, "look around")
            steps = page.get_by_role("list", name="Subagent steps").get_by_role("listitem")
            await expect(steps).to_have_text(["Listed /mnt/user-data"])
            await page.reload()  # the run and its stream continue
            await expect(steps).to_have_text(["Listed /mnt/user-data"])
            await page.get_by_role("textbox", name="Message").press("Escape")
            stopped = page.get_by_role("button", name="Stopped Look around")
            await expect(stopped).to_be_visible()
            await wait_until_idle(page)
            await page.reload()
            letters = page.get_by_role("button", name="Subagent finished Sort letters")
            await letters.click()
            bar = page.get_by_role("progressbar", name="Items completed")
            await expect(bar).to_have_attribute("aria-valuenow", "3")
            await expect(letters).to_contain_text("3 / 3 · 1 failed")
            await stopped.click()
            await expect(steps).to_have_text(["Listed /mnt/user-data"])
            assert await serious_violations(page) == []
