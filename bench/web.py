"""How the page holds up in a thread of ten thousand messages, in Chromium against a real server.

Each figure stands against the most it may be, but one: what the second half of an answer's tokens costs the page stands
against what the first half did.
"""

import asyncio
import gzip
import re
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from _measure import ROOT, Ratio, report

sys.path.insert(0, str(ROOT))

from playwright.async_api import Browser, CDPSession, Page, async_playwright

from deerflow.gateway.page import STATIC
from deerflow.testing import ScriptedServer
from tests.browser import BROWSER_OPTIONS
from tests.e2e.long_thread import THREAD, write_long_thread
from tests.e2e.support import serve_model

MESSAGES = 10_000
TOKENS = 5_000
OPENED = 5
MOST_OPEN_MS = 1500
MOST_FRAME_MS = 50
MOST_ENTRY_KIB = 250
LIMIT_MS = 120_000
WORDS = tuple(f"word{number} " + ("\n\n" if number % 25 == 24 else "") for number in range(TOKENS))
HALF = len("".join(WORDS[: TOKENS // 2]))

NOTE_OPENING = """
new MutationObserver(() => {
  if (window.openedAt === undefined && document.querySelector("[data-role=assistant] .prose"))
    requestAnimationFrame(() => { window.openedAt ??= performance.now(); });
}).observe(document, { childList: true, subtree: true });
"""
NOTE_FRAMES = """() => {
  window.frames_ms = [];
  let last = performance.now();
  const note = (now) => { window.frames_ms.push(now - last); last = now; requestAnimationFrame(note); };
  requestAnimationFrame(note);
}"""
# The gateway writes pieces in handfuls; here the page gets every token as an event of its own, two every 4 ms.
STREAM_TOKENS = """([words, pace]) => {
  const real = window.fetch;
  window.fetch = (path, init) => {
    if (!String(path).endsWith("/runs/stream")) return real(path, init);
    const encoder = new TextEncoder();
    let seq = 1;
    const event = (name, data) => encoder.encode(`id: ${seq++}\\nevent: ${name}\\ndata: ${JSON.stringify(data)}\\n\\n`);
    const body = new ReadableStream({
      start(stream) {
        stream.enqueue(event("metadata", { run_id: "streamed" }));
        let next = 0;
        const timer = setInterval(() => {
          for (let count = 0; count < 2 && next < words.length; count++) {
            const piece = { type: "AIMessageChunk", id: "streamed", content: words[next++] };
            stream.enqueue(event("messages", [piece, {}]));
          }
          if (next < words.length) return;
          clearInterval(timer);
        }, pace);
      },
    });
    return Promise.resolve(new Response(body, { headers: { "Content-Location": "/threads/long/runs/streamed" } }));
  };
}"""
PACE_MS = 4
ANSWERED = (
    """chars => [...document.querySelectorAll("[data-role=assistant] .prose")].at(-1).textContent.length >= chars"""
)


def main() -> int:
    """Measure, and say whether every bar is kept."""
    with tempfile.TemporaryDirectory() as scratch:
        opening, frames, halves = asyncio.run(measure(Path(scratch)))
    p95 = statistics.quantiles(frames, n=20)[-1]
    return report(
        [
            Ratio(
                f"{MESSAGES} messages are open",
                [statistics.median(opening)],
                [MOST_OPEN_MS],
                1.0,
                "ms",
                is_compared=False,
            ),
            Ratio("frame while streaming and typing there, p95", [p95], [MOST_FRAME_MS], 1.0, "ms", is_compared=False),
            Ratio(f"second half of {TOKENS} tokens against the first", [halves[1]], [halves[0]], 1.2, "ms"),
            Ratio("entry of the page, compressed", [entry_kib()], [MOST_ENTRY_KIB], 1.0, "KB"),
        ]
    )


async def measure(home: Path) -> tuple[list[float], list[float], tuple[float, float]]:
    """Times to open the thread, times between frames, and what each half of an answer cost, all in ms."""
    await write_long_thread(home, MESSAGES)
    chromium = shutil.which("chromium") or sys.exit("chromium is not installed")
    async with ScriptedServer([]) as model, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=BROWSER_OPTIONS)
        with serve_model(home, model) as server:
            url = f"{server.url}/threads/{THREAD}"
            opening = [await time_opening(browser, url) for _ in range(OPENED)]
            frames, halves = await stream_and_type(browser, url)
        await browser.close()
    return opening, frames, halves


async def time_opening(browser: Browser, url: str) -> float:
    """From the first request until the end of the thread is on the screen."""
    page = await (await browser.new_context(bypass_csp=True)).new_page()
    await page.add_init_script(NOTE_OPENING)
    await page.goto(url)
    await page.wait_for_function("window.openedAt !== undefined", timeout=LIMIT_MS)
    opened: float = await page.evaluate("window.openedAt")
    await page.context.close()
    return opened


async def stream_and_type(browser: Browser, url: str) -> tuple[list[float], tuple[float, float]]:
    """Ask for a long answer, and write while it comes."""
    page = await (await browser.new_context(bypass_csp=True)).new_page()
    page.set_default_timeout(LIMIT_MS)
    await page.goto(url)
    box = page.get_by_role("textbox", name="Message")
    await page.locator("[data-role=assistant]").last.wait_for()
    await page.evaluate(STREAM_TOKENS, [WORDS, PACE_MS])
    await box.fill("write a lot")
    await page.keyboard.press("Enter")
    session = await page.context.new_cdp_session(page)
    await session.send("Performance.enable", {"timeDomain": "threadTicks"})
    await page.get_by_text("word3 ").first.wait_for()
    await page.evaluate(NOTE_FRAMES)
    writing = asyncio.create_task(write_on(page))
    costs = [await cost_ms(session)]
    for chars in (HALF, HALF * 2 - 2 * TOKENS // 25):
        await page.wait_for_function(ANSWERED, arg=chars * 0.97)
        costs.append(await cost_ms(session))
    writing.cancel()
    frames: list[float] = await page.evaluate("window.frames_ms")
    return frames, (costs[1] - costs[0], costs[2] - costs[1])


async def write_on(page: Page) -> None:
    """Write until stopped."""
    while True:
        await page.keyboard.type("the quick brown fox ", delay=30)


async def cost_ms(session: CDPSession) -> float:
    """What the page's main thread has done so far."""
    metrics = (await session.send("Performance.getMetrics"))["metrics"]
    return 1000 * next(float(metric["value"]) for metric in metrics if metric["name"] == "TaskDuration")


def entry_kib() -> float:
    """What a browser has to load before it can show anything."""
    files = re.findall(r'(?:src|href)="/(assets/[^"]+\.js)"', (STATIC / "index.html").read_text())
    return sum(len(gzip.compress((STATIC / file).read_bytes())) for file in files) / 1024


if __name__ == "__main__":
    sys.exit(main())
