"""An upload of 50 MB and its conversion while ten runs stream: how much later their events arrive.

Ten runs are spoken to by a model at 20 tokens a second. Every token is the moment it was sent, so that a reader can
tell how late it is. Alone first, then while a large PDF is uploaded, written to the disk and turned into Markdown.
"""

import asyncio
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
from _measure import free_port, wait_until_healthy
from _table import Row, record
from load import CONFIG, clock_model, follow, percentile, running, start
from pypdf import PdfWriter
from reportlab.pdfgen.canvas import Canvas

from deerflow.config.sections.sandbox import ToolboxConfig
from deerflow.sandbox.local.toolbox import ToolboxBuilder

RUNS = 10
TOKENS = 240
PAUSE_MS = 50
PAGES = 60
MEGABYTES = 49
MOST_P95_MS = 200.0
LIMIT_S = 120.0
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


@dataclass(frozen=True, slots=True)
class Uploaded:
    """What became of the file, and how long that took."""

    state: str
    answered_s: float
    settled_s: float


def main() -> int:
    """Measure without and with an upload."""
    asyncio.run(ToolboxBuilder(ToolboxConfig(), CACHE / "deerflow", os.environ).build())
    document = heavy_pdf()
    with clock_model(TOKENS, PAUSE_MS) as base_url, our_server(base_url) as port:
        alone, _ = asyncio.run(stream(port, None))
        beside, uploaded = asyncio.run(stream(port, document))
    assert uploaded is not None
    lost = RUNS * TOKENS * 2 - len(alone) - len(beside)
    p95 = percentile(beside, 95)
    is_late = p95 > MOST_P95_MS or lost > 0 or uploaded.state != "converted"
    print(f"{RUNS} runs alone (floor): median {percentile(alone, 50):.1f} ms late, p95 {percentile(alone, 95):.1f} ms")
    print(
        f"{RUNS} runs beside an upload of {len(document) / 1e6:.0f} MB: median {percentile(beside, 50):.1f} ms late, "
        f"p95 {p95:.1f} ms, p99 {percentile(beside, 99):.1f} ms, lost {lost}   bar p95 ≤ {MOST_P95_MS:g} ms, 0 lost"
        f"{'  MISSED' if is_late else ''}"
    )
    print(f"answered after {uploaded.answered_s:.1f} s, {uploaded.state} after {uploaded.settled_s:.1f} s")
    record(
        [
            Row(f"{RUNS} runs alone: delay of a token, p95", "figure", percentile(alone, 95), "ms"),
            Row(f"{RUNS} runs beside an upload: delay of a token, p95", "figure", p95, "ms", bar=MOST_P95_MS),
            Row("tokens lost", "count", lost, bar=0),
            Row("upload until it is answered", "figure", uploaded.answered_s, "s"),
            Row("upload until it is converted", "figure", uploaded.settled_s, "s"),
        ]
    )
    return int(is_late)


async def stream(port: int, document: bytes | None) -> tuple[list[float], Uploaded | None]:
    """How late every token was, and what became of the file uploaded meanwhile."""
    places = await asyncio.gather(*(start(port) for _ in range(RUNS)))
    uploading = asyncio.create_task(asyncio.to_thread(upload_apart, port, document)) if document else None
    delays = await asyncio.gather(*(follow(port, place) for place in places))
    return [delay for each in delays for delay in each], await uploading if uploading else None


def upload_apart(port: int, document: bytes) -> Uploaded:
    """Upload in a process of its own, for sending would delay the readers here."""
    with tempfile.NamedTemporaryFile(suffix=".pdf") as file:
        file.write(document)
        file.flush()
        command = [sys.executable, __file__, f"http://127.0.0.1:{port}/api/threads", file.name]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Uploaded(**json.loads(done.stdout))


def upload(threads_url: str, file: str) -> Uploaded:
    """Upload to a new thread, and look until nothing is done with the file any more."""
    with httpx.Client(timeout=LIMIT_S) as http:
        url = f"{threads_url}/{http.post(threads_url, json={}).json()['thread_id']}/uploads"
        began = time.monotonic()
        with Path(file).open("rb") as content:
            answer = http.post(url, files=[("files", ("heavy.pdf", content))]).json()
        answered = time.monotonic() - began
        state = answer["files"][0]["conversion"]
        while state == "converting" and time.monotonic() - began < LIMIT_S:
            time.sleep(0.2)
            state = http.get(f"{url}/list").json()["files"][0]["conversion"]
        return Uploaded(state, answered, time.monotonic() - began)


def heavy_pdf() -> bytes:
    """Pages that take their time, and what makes the file large."""
    file = io.BytesIO()
    canvas = Canvas(file)
    for page in range(PAGES):
        for line in range(45):
            canvas.drawString(
                60, 800 - 16 * line, f"Page {page + 1}, line {line}: some words about the matter at hand."
            )
        canvas.showPage()
    canvas.save()
    writer = PdfWriter(clone_from=file)
    writer.add_attachment("original.bin", random.Random(1).randbytes(MEGABYTES * 1024 * 1024))
    result = io.BytesIO()
    writer.write(result)
    return result.getvalue()


@contextmanager
def our_server(base_url: str) -> Iterator[int]:
    """`deerflow serve` with that model, and with the toolbox; its port."""
    port = free_port()
    with tempfile.TemporaryDirectory() as scratch:
        config = CONFIG.format(base_url=base_url).replace("enabled: false", "enabled: true")
        (Path(scratch) / "config.yaml").write_text(config)
        command = [str(Path(sys.executable).parent / "deerflow"), "serve", "--port", str(port)]
        options = {"cwd": scratch, "stdout": subprocess.DEVNULL}
        with running(["env", f"XDG_CACHE_HOME={CACHE}", *command], **options) as process:
            wait_until_healthy(port, process)
            yield port


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(asdict(upload(sys.argv[1], sys.argv[2]))))
    else:
        sys.exit(main())
