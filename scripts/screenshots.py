"""Takes the pictures in docs/images: of a server of its own, or of the one whose address is given."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.request import Request, urlopen

from PIL import Image
from playwright.sync_api import Browser, expect, sync_playwright

from deerflow.testing import Answer, ScriptedServer, ServerRequest, Usage

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
DEERFLOW = Path(sys.executable).parent / "deerflow"
OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
DESK = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
EARLIER = ["What is DeerFlow, and what can it do?", "How do I connect a real model?"]
SHOWN = "Show me what an answer can look like: headings, a table, code and a list."


SLIDES = "Make three slides about hot drinks."
SLIDE = "3 slides"
CHART = "Analyse some sales data and draw a chart."
OUTPUTS = "%2Fmnt%2Fuser-data%2Foutputs%2F"
AGENT = {
    "name": "analyst",
    "description": "Adds up tables and says what they mean",
    "soul": "# Analyst\n\nYou give the number first, then how you got it.\n\n- You check every sum twice.\n"
    "- You say what the data cannot tell.\n",
}
PRICES = {
    "large": {"display_name": "Large model", "pricing": {"input": 3, "cached_input": 0.3, "output": 15}},
    "small": {"display_name": "Small model", "pricing": {"input": 1, "cached_input": 0.1, "output": 5}},
}
QUESTIONS = [
    "Compare electric car registrations in Europe",
    "Summarize the minutes of the last three meetings",
    "Find the odd rows in sales.csv",
    "Write a page about our summer school",
    "Which papers cite our method?",
    "Plan the move of the office",
    "Draw revenue by region and quarter",
    "Translate the manual into German",
    "Why does the nightly build fail?",
    "Make slides about heat pumps",
    "Check the numbers in the annual report",
    "What changed in the new tax rules?",
]
MESSAGES = 6
DAYS = 30
DAY_US = 24 * 3600 * 1_000_000


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
        slides = converse(browser, address, [SLIDES])
        take(browser, f"{slides}?panel=artifacts&file={OUTPUTS}drinks.pptx", "slides-light", DESK, "light", SLIDE)
        project = f"{address}/projects/{make_project(address)}"
        take(browser, project, "project-light", DESK, "light", "2 of 2 files are searchable")
        take_usage(browser)
        take(browser, address, "connect-light", DESK, "light", click="Connect a model")
        take(browser, thread, "chat-chinese", DESK, "light", locale="zh-CN")
        take(browser, f"{address}/skills", "skills-chinese", PHONE, "dark", locale="zh-CN")
        browser.close()


@contextmanager
def server() -> Iterator[str]:
    """The address of a server without any thread."""
    if len(sys.argv) > 1:
        yield sys.argv[1].rstrip("/")
        return
    with tempfile.TemporaryDirectory() as home, serving(home) as address:
        yield address


@contextmanager
def serving(home: str, *arguments: str) -> Iterator[str]:
    """The address of a server that keeps its data in a folder."""
    # No key of this machine: the pictures show what a newcomer sees.
    # The Python packages of commands may be there already; building them takes minutes.
    cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    environment = {"PATH": os.environ["PATH"], "HOME": home, "DEER_FLOW_HOME": home, "XDG_CACHE_HOME": cache}
    command = [str(DEERFLOW), "serve", "--port", "0", *arguments]
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


def take_usage(browser: Browser) -> None:
    """The picture of a server whose models have prices, as if it had been used for weeks."""
    with tempfile.TemporaryDirectory() as home, scripted_models() as models:
        config = Path(home) / "config.yaml"
        settings = {"models": models, "suggestions": {"enabled": False}}
        config.write_text(json.dumps(settings | {"memory": {"enabled": False}}))
        with serving(home, "--config", str(config)) as address:
            for number, question in enumerate(QUESTIONS):
                for _ in range(MESSAGES):
                    ask(address, f"t{number}", question, "small" if number % 3 == 1 else "large")
            with closing(sqlite3.connect(Path(home) / "data" / "deerflow.db")) as database:
                spread = f"UPDATE usage_entries SET ended_at = ended_at - entry_id * 7 % {DAYS} * {DAY_US}"
                database.execute(spread)
                database.commit()
            take(browser, f"{address}/usage", "usage-light", DESK, "light", "By thread", click="Last 30 days")


@contextmanager
def scripted_models() -> Iterator[Sequence[dict[str, Any]]]:
    """The entries of models with prices, whose provider counts many tokens."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    provider = ScriptedServer([count_tokens], endless=True)
    try:
        asyncio.run_coroutine_threadsafe(provider.__aenter__(), loop).result()
        entry = provider.model_config().model_dump(mode="json", exclude_unset=True) | {"api_key": "scripted-key"}
        yield [entry | {"name": name, **settings} for name, settings in PRICES.items()]
        asyncio.run_coroutine_threadsafe(provider.__aexit__(None, None, None), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def count_tokens(request: ServerRequest) -> Answer:
    """An answer with the token counts of a long task, other ones each time."""
    taken = 60_000 + request.number * 79_190 % 260_000
    return Answer("Done.", usage=Usage(taken, taken // 18, cached_tokens=taken * 3 // 4))


def ask(address: str, thread: str, question: str, model: str) -> None:
    """Send a message and wait for the answer."""
    body = {"input": {"messages": [{"type": "human", "content": question}]}, "context": {"model_name": model}}
    headers = {"Content-Type": "application/json"}
    url = f"{address}/api/threads/{thread}/runs/wait"
    with urlopen(Request(url, json.dumps(body).encode(), headers), timeout=60):
        pass


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
    url = page.url.partition("?")[0]  # the panel may be open
    page.close()
    return url


def make_project(address: str) -> str:
    """Have a project with files; its id."""
    headers = {"Content-Type": "application/json"}
    body = json.dumps({"name": "Annual report", "instructions": "Answer in one paragraph, with the numbers first."})
    with urlopen(Request(f"{address}/api/projects", body.encode(), headers), timeout=10) as answer:
        project: str = json.load(answer)["project_id"]
    files = {"plan.md": "# Plan\n\nThe report is due in March.\n", "figures.csv": "year,revenue\n2024,12\n2025,15\n"}
    part = '--b\r\nContent-Disposition: form-data; name="files"; filename="{}"\r\n\r\n{}\r\n'
    form = "".join(part.format(name, text) for name, text in files.items()) + "--b--\r\n"
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    with urlopen(Request(f"{address}/api/projects/{project}/files", form.encode(), headers), timeout=10):
        return project


def take(
    browser: Browser,
    url: str,
    name: str,
    size: dict[str, int],
    scheme: str,
    shown: str | None = None,
    *,
    click: str | None = None,
    locale: str = "en-US",
) -> None:
    """One picture of a view, when all of it is there and the text `shown` is visible.

    `click` names a button or choice of the view.
    """
    page = browser.new_page(viewport=size, color_scheme=scheme, locale=locale, reduced_motion="reduce")  # type: ignore[arg-type]
    page.goto(url)
    if click:
        page.get_by_role("button", name=click).or_(page.get_by_text(click, exact=True)).first.click()
    if shown:
        expect(page.get_by_text(shown).first).to_be_visible(timeout=60_000)
    expect(page.get_by_role("heading", level=1, include_hidden=True).first).to_be_attached()
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
