"""Takes the pictures in docs/images: of a server of its own, or of the one whose address is given."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

from PIL import Image
from playwright.sync_api import Browser, expect, sync_playwright

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
DEERFLOW = Path(sys.executable).parent / "deerflow"
OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
DESK = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
EARLIER = ["What is DeerFlow, and what can it do?", "How do I connect a real model?"]
SHOWN = "Show me what an answer can look like: headings, a table, code and a list."


CHART = "Analyse some sales data and draw a chart."
OUTPUTS = "%2Fmnt%2Fuser-data%2Foutputs%2F"
AGENT = {
    "name": "analyst",
    "description": "Adds up tables and says what they mean",
    "soul": "# Analyst\n\nYou give the number first, then how you got it.\n\n- You check every sum twice.\n"
    "- You say what the data cannot tell.\n",
}


def main() -> None:
    """Have a few conversations and look at them, and at the views beside them."""
    chromium = shutil.which("chromium") or sys.exit("chromium is not installed")
    IMAGES.mkdir(parents=True, exist_ok=True)
    with server() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=OPTIONS)
        take(browser, address, "start-light", DESK, "light")
        chart = converse(browser, address, [CHART])
        thread = converse(browser, address, [*EARLIER, SHOWN])
        take(browser, thread, "chat-light", DESK, "light")
        take(browser, thread, "chat-dark", DESK, "dark")
        take(browser, thread, "phone", PHONE, "light")
        take(browser, f"{chart}?panel=artifacts&file={OUTPUTS}chart.png", "panel-light", DESK, "light")
        take(browser, f"{chart}?panel=artifacts&file={OUTPUTS}report.md", "panel-dark", DESK, "dark")
        take(browser, f"{chart}?panel=run", "run-light", DESK, "light")
        take(browser, f"{chart}?panel=files", "phone-panel", PHONE, "dark")
        make_agent(address)
        take(browser, f"{address}/agents/analyst", "agent-light", DESK, "light")
        take(browser, f"{address}/skills", "skills-light", DESK, "light")
        take(browser, f"{address}/settings", "settings-dark", DESK, "dark")
        browser.close()


@contextmanager
def server() -> Iterator[str]:
    """The address of a server without any thread."""
    if len(sys.argv) > 1:
        yield sys.argv[1].rstrip("/")
        return
    with tempfile.TemporaryDirectory() as home:
        # No key of this machine: the pictures show what a newcomer sees.
        # The Python packages of commands may be there already; building them takes minutes.
        cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
        environment = {"PATH": os.environ["PATH"], "HOME": home, "DEER_FLOW_HOME": home, "XDG_CACHE_HOME": cache}
        command = [DEERFLOW, "serve", "--port", "0"]
        with subprocess.Popen(command, cwd=home, env=environment, text=True, stdout=subprocess.PIPE) as process:
            try:
                yield address_said_by(process)
            finally:
                process.terminate()


def address_said_by(process: subprocess.Popen[str]) -> str:
    """Where the server says it is."""
    for line in process.stdout or ():
        if found := re.search(r"http://\S+:\d+", line):
            return found[0]
    sys.exit("the server did not start")


def make_agent(address: str) -> None:
    """Have an agent to look at."""
    headers = {"Content-Type": "application/json"}
    with urlopen(Request(f"{address}/api/agents", json.dumps(AGENT).encode(), headers), timeout=10):
        pass


def converse(browser: Browser, address: str, texts: list[str]) -> str:
    """Make a few threads; the address of the last."""
    page = browser.new_page(locale="en-US")
    for text in texts:
        page.goto(address)
        page.get_by_role("textbox", name="Message").fill(text)
        page.keyboard.press("Enter")
        expect(page.get_by_text("Response complete")).to_be_attached(timeout=60_000)
    url = page.url
    page.close()
    return url


def take(browser: Browser, url: str, name: str, size: dict[str, int], scheme: str) -> None:
    """One picture of a view, when all of it is there."""
    page = browser.new_page(viewport=size, color_scheme=scheme, locale="en-US", reduced_motion="reduce")  # type: ignore[arg-type]
    page.goto(url)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.wait_for_load_state("networkidle")
    expect(page.get_by_role("status", name="Loading")).to_have_count(0)
    page.evaluate("document.activeElement.blur()")
    page.wait_for_function("document.fonts.status === 'loaded'")
    shrunk(page.screenshot()).save(IMAGES / f"{name}.png", optimize=True)
    page.close()
    print(f"docs/images/{name}.png")


def shrunk(picture: bytes) -> Image.Image:
    """The picture with as many colours as a page has, which is a third of the bytes."""
    whole = Image.open(io.BytesIO(picture)).convert("RGB")
    return whole.quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE)


if __name__ == "__main__":
    main()
