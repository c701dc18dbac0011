"""CPU time of the chat model classes that configurations name, for one streamed answer of 200 tokens.

The same text in the protocol of each vendor comes from a server in a process of its own, with a pause after each token
as models make it. The floor is our OpenAI-compatible client. Only the process of the client is measured, and several
answers at a time, as in a server.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from _measure import ROOT, Ratio, report

from deerflow.config.sections.models import ModelConfig
from deerflow.models.factory import ModelCatalog

TOKENS = 200
PAUSE_MS = 10
AT_ONCE = 10
ROUNDS = 5
OURS = "our client"
CLASSES: dict[str, dict[str, Any]] = {
    OURS: {"use": "deerflow.models.openai_compatible:OpenAICompatibleChatModel", "base_url": "{url}/v1"},
    "ChatOpenAI": {"use": "langchain_openai:ChatOpenAI", "native": False, "base_url": "{url}/v1"},
    "ChatAnthropic": {"use": "langchain_anthropic:ChatAnthropic", "base_url": "{url}"},
    "ChatGoogleGenerativeAI": {"use": "langchain_google_genai:ChatGoogleGenerativeAI", "base_url": "{url}"},
}
SERVER = """
import asyncio, sys
from tests.models.vendor_server import VendorServer
words = [f"word{{number}} " for number in range({tokens})]
with VendorServer(words, lambda: asyncio.sleep({pause_ms} / 1000)) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


def main() -> int:
    """Measure every class."""
    with serve() as url:
        figures = asyncio.run(measure(url))
    others = [name for name in CLASSES if name != OURS]
    return report([Ratio(f"CPU per answer, {name}", figures[name], figures[OURS], None, "ms") for name in others])


@contextmanager
def serve() -> Iterator[str]:
    """Yield the URL of the server."""
    program = SERVER.format(tokens=TOKENS, pause_ms=PAUSE_MS)
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate(timeout=30)


async def measure(url: str) -> dict[str, list[float]]:
    """Return the CPU milliseconds for an answer, by class and round."""
    entries = [build_entry(name, settings, url) for name, settings in CLASSES.items()]
    catalog = ModelCatalog(entries)
    figures: dict[str, list[float]] = {name: [] for name in CLASSES}
    for number in range(ROUNDS + 1):
        for name in CLASSES:
            model = catalog.create(name)
            began = time.process_time()
            texts = await asyncio.gather(*(read_answer(model) for _ in range(AT_ONCE)))
            spent = time.process_time() - began
            assert len(set(texts)) == 1 and len(texts[0].split()) == TOKENS, texts
            if number:  # the first round opens connections and imports
                figures[name].append(spent / AT_ONCE * 1000)
    await catalog.aclose()
    return figures


def build_entry(name: str, settings: dict[str, Any], url: str) -> ModelConfig:
    """Return the configuration entry of a class."""
    entry = {"name": name, "model": "m", "api_key": "none", **settings}
    return ModelConfig.model_validate(entry | {"base_url": settings["base_url"].format(url=url)})


async def read_answer(model: Any) -> str:
    """Return the text of a streamed answer."""
    return "".join([chunk.text async for chunk in model.astream("Say something.")])


if __name__ == "__main__":
    sys.exit(main())
