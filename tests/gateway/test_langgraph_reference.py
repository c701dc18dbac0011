"""Comparison with the public LangGraph server: every difference is listed with a reason."""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import httpx
import pytest
import yaml

from tests.agents.support import ROOT, free_port, installed, output_until
from tests.gateway.langgraph_differences import DIFFERENCES, Difference
from tests.gateway.reference.parrot import CONFIG
from tests.gateway.reference.walk import RecordedResponse, walk
from tests.gateway.support import open_langgraph_api

pytestmark = [pytest.mark.external, pytest.mark.timeout(300)]  # the first time the public server is installed


@dataclass(frozen=True, order=True)
class FoundDifference:
    """Difference between the servers."""

    step: str
    kind: str
    detail: str

    def fits(self, difference: Difference) -> bool:
        """Return whether the difference is listed."""
        pairs = (self.step, difference.steps), (self.kind, difference.kind), (self.detail, difference.detail)
        return all(fnmatchcase(word, pattern) for word, pattern in pairs)


@pytest.fixture(scope="module")
def differences(tmp_path_factory: pytest.TempPathFactory) -> list[FoundDifference]:
    """Return the differences between the two servers."""
    theirs, ours = asyncio.run(walk_both(installed(), tmp_path_factory.mktemp("walks")))
    assert theirs.keys() == ours.keys()
    return sorted(each for step in theirs for each in compare(step, theirs[step], ours[step]))


def test_every_difference_has_a_reason(differences: list[FoundDifference]) -> None:
    unexplained = [each for each in differences if not any(each.fits(known) for known in DIFFERENCES)]
    assert unexplained == []


def test_every_listed_difference_still_exists(differences: list[FoundDifference]) -> None:
    stale = [known for known in DIFFERENCES if not any(each.fits(known) for each in differences)]
    assert stale == []


async def walk_both(
    program: Path, directory: Path
) -> tuple[Mapping[str, RecordedResponse], Mapping[str, RecordedResponse]]:
    """Return the responses of both servers."""
    for name in ("theirs", "ours"):
        (directory / name).mkdir()
    async with asyncio.timeout(200):
        async with public_server(program, directory / "theirs") as http:
            theirs = await walk(http)
        async with open_langgraph_api(directory / "ours") as http:
            return theirs, await walk(http)


@asynccontextmanager
async def public_server(program: Path, directory: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of `langgraph dev` with the same agent and configuration."""
    shutil.copy(ROOT / "langgraph.json", directory)
    (directory / "config.yaml").write_text(yaml.safe_dump(CONFIG), encoding="utf-8")
    port = free_port()
    environment = {"PATH": os.defpath, "HOME": str(directory), "LANGGRAPH_CLI_NO_ANALYTICS": "1"}
    process = await asyncio.create_subprocess_exec(
        *(program, "dev", "--no-browser", "--no-reload", "--n-jobs-per-worker", "4", "--port", str(port)),
        cwd=directory,
        env={**environment, "PYTHONPATH": f"{ROOT}/src:{ROOT}"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(60):
            output = await output_until(process, b"Application started up")
        reading = asyncio.create_task(output.read())  # a full pipe would stop the server
        # It says so a moment before it listens.
        transport = httpx.AsyncHTTPTransport(retries=8)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", transport=transport, timeout=30) as http:
            yield http
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    await reading


def compare(step: str, theirs: RecordedResponse, ours: RecordedResponse) -> Iterator[FoundDifference]:
    """Yield the differences of one step."""
    if theirs.status != ours.status:
        yield FoundDifference(step, "status", f"{ours.status} for {theirs.status}")
        return
    if theirs.events != ours.events:
        yield FoundDifference(step, "events", f"{' '.join(ours.events)} for {' '.join(theirs.events)}")
    for name in theirs.headers ^ ours.headers:
        yield FoundDifference(step, "header missing" if name in theirs.headers else "header added", name)
    yield from (FoundDifference(step, "missing", path) for path in list_topmost(theirs.fields - ours.fields))
    yield from (FoundDifference(step, "added", path) for path in list_topmost(ours.fields - theirs.fields))


def list_topmost(paths: frozenset[str]) -> list[str]:
    """Return the paths that are not below another."""
    return [path for path in paths if not any(path.startswith((f"{other}.", f"{other}[")) for other in paths)]
