"""How the page holds up in a thread of ten thousand messages, in Chromium against a real server.

Each figure stands against the most it may be, but one: what the second half of an answer's tokens costs the page stands
against what the first half did.
"""

import asyncio
import gzip
import json
import re
import shutil
import statistics
import sys
import tempfile
from bisect import bisect_right
from collections import Counter
from pathlib import Path
from typing import Any

from _measure import ROOT, Ratio, report

sys.path.insert(0, str(ROOT))

from playwright.async_api import Browser, CDPSession, Page, async_playwright

from deerflow.gateway.app import STATIC
from deerflow.testing import Answer, ScriptedServer
from tests.browser import BROWSER_OPTIONS
from tests.e2e.long_thread import THREAD, write_long_thread
from tests.e2e.support import serve_model

MESSAGES = 10_000
TOKENS = 5_000
OPENED = 5
STREAMED = 3
MOST_OPEN_MS = 1500
MOST_FRAME_MS = 17
MOST_ENTRY_KIB = 250
MOST_STYLES_KIB = 12
LIMIT_MS = 120_000
WORDS = tuple(f"word{number} " + ("\n\n" if number % 25 == 24 else "") for number in range(TOKENS))
HALF = len("".join(WORDS[: TOKENS // 2]))

NOTE_OPENING = """
new MutationObserver(() => {
  if (window.openedAt === undefined && document.querySelector("[data-role=assistant] .prose"))
    requestAnimationFrame(() => { window.openedAt ??= performance.now(); });
}).observe(document, { childList: true, subtree: true });
"""
PACE_S = 0.004
"""Seconds between two tokens of the scripted provider."""
TRACED = ["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"]
ANSWERED = (
    """chars => [...document.querySelectorAll("[data-role=assistant] .prose")].at(-1).textContent.length >= chars"""
)


def main() -> int:
    """Measure, and say whether every bar is kept."""
    with tempfile.TemporaryDirectory() as scratch:
        opening, frames, halves = asyncio.run(measure(Path(scratch)))
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
            Ratio(
                "work of a frame while streaming and typing there, p95",
                [statistics.median(frames)],
                [MOST_FRAME_MS],
                1.0,
                "ms",
                is_compared=False,
            ),
            Ratio(
                f"second half of {TOKENS} tokens against the first",
                [statistics.median(half[1] for half in halves)],
                [statistics.median(half[0] for half in halves)],
                1.2,
                "ms",
            ),
            Ratio("entry of the page, compressed", [entry_kib("js")], [MOST_ENTRY_KIB], 1.0, "KB"),
            Ratio("its styles, compressed", [entry_kib("css")], [MOST_STYLES_KIB], 1.0, "KB"),
        ]
    )


async def measure(home: Path) -> tuple[list[float], list[float], list[tuple[float, float]]]:
    """Times to open the thread, the p95 of a frame's work and what each half of an answer cost, in ms, each round."""
    await write_long_thread(home, MESSAGES)
    chromium = shutil.which("chromium") or sys.exit("chromium is not installed")
    async with ScriptedServer([Answer(WORDS, delay_s=PACE_S)], endless=True) as model, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=BROWSER_OPTIONS)
        with serve_model(home, model) as server:
            url = f"{server.url}/threads/{THREAD}"
            opening = [await time_opening(browser, url) for _ in range(OPENED)]
            rounds = [await stream_and_type(browser, url) for _ in range(STREAMED)]
        await browser.close()
    return opening, [p95 for p95, _ in rounds], [halves for _, halves in rounds]


async def time_opening(browser: Browser, url: str) -> float:
    """From the first request until the end of the thread is on the screen."""
    page = await (await browser.new_context(bypass_csp=True)).new_page()
    await page.add_init_script(NOTE_OPENING)
    await page.goto(url)
    await page.wait_for_function("window.openedAt !== undefined", timeout=LIMIT_MS)
    opened: float = await page.evaluate("window.openedAt")
    await page.context.close()
    return opened


async def stream_and_type(browser: Browser, url: str) -> tuple[float, tuple[float, float]]:
    """Ask for a long answer and write while it comes; return the p95 of a frame's work and the cost of each half."""
    page = await (await browser.new_context()).new_page()
    page.set_default_timeout(LIMIT_MS)
    await page.goto(url)
    answers = page.locator("[data-role=assistant]")
    await answers.last.wait_for()
    await page.get_by_role("textbox", name="Message").fill("write a lot")
    await page.keyboard.press("Enter")
    session = await page.context.new_cdp_session(page)
    await session.send("Performance.enable", {"timeDomain": "threadTicks"})
    await answers.last.get_by_text("word3 ").first.wait_for()
    await browser.start_tracing(page=page, categories=TRACED)
    writing = asyncio.create_task(write_on(page))
    costs = [await cost_ms(session)]
    for chars in (HALF, HALF * 2 - 2 * TOKENS // 25):
        await page.wait_for_function(ANSWERED, arg=chars * 0.97)
        costs.append(await cost_ms(session))
    writing.cancel()
    work = frame_work(json.loads(await browser.stop_tracing()))
    await page.get_by_text("Response complete").wait_for(state="attached")
    await page.context.close()
    return statistics.quantiles(work, n=20)[-1], (costs[1] - costs[0], costs[2] - costs[1])


def frame_work(trace: dict[str, list[dict[str, Any]]]) -> list[float]:
    """Return the CPU time in ms of the page's main thread for each frame.

    The times between frames would tell how busy the machine is; CPU time is what the page itself takes of the 16.7 ms.
    """
    events = trace["traceEvents"]
    frames = [event for event in events if event["name"] == "Commit"]
    page = Counter((event["pid"], event["tid"]) for event in frames).most_common(1)[0][0]
    starts = sorted(event["ts"] for event in frames if (event["pid"], event["tid"]) == page)
    work = [0.0] * len(starts)
    for event in events:
        is_task = event["name"] == "ThreadControllerImpl::RunTask" and "tdur" in event
        if is_task and (event["pid"], event["tid"]) == page and event["ts"] >= starts[0]:
            work[bisect_right(starts, event["ts"]) - 1] += event["tdur"] / 1000
    return work


async def write_on(page: Page) -> None:
    """Write until stopped."""
    while True:
        await page.keyboard.type("the quick brown fox ", delay=30)


async def cost_ms(session: CDPSession) -> float:
    """What the page's main thread has done so far."""
    metrics = (await session.send("Performance.getMetrics"))["metrics"]
    return 1000 * next(float(metric["value"]) for metric in metrics if metric["name"] == "TaskDuration")


def entry_kib(ending: str) -> float:
    """What a browser has to load before it can show anything: the files of one kind."""
    files = re.findall(rf'(?:src|href)="/(assets/[^"]+\.{ending})"', (STATIC / "index.html").read_text())
    return sum(len(gzip.compress((STATIC / file).read_bytes())) for file in files) / 1024


if __name__ == "__main__":
    sys.exit(main())
