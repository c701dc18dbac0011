"""Deep research on a local site of 200 pages: citations of the report are verified."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
from langchain_core.messages import BaseMessage

from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRequest, RunStatus
from deerflow.testing import Answer, ScriptedModel, calling, in_parallel
from tests.community.web_site import ScriptedResponse, Site, html_response, json_response, open_site, redirect
from tests.sandbox.support import files, open_sandbox_harness, tool_results

PAGES, PAGES_READ = 200, 18
REPORT = "/mnt/user-data/outputs/report.md"
LIMIT_S = 60.0
WORDS = ("reed", "heron", "marsh", "ferry", "lantern", "harbour", "gale", "tide", "keeper", "signal", "pier", "fog")
INDEX, MISSING, FAILING, REDIRECTED = "/index", "/gone", "/failing", "/moved"


@dataclass(frozen=True)
class StationPage:
    """Content of a page."""

    path: str
    title: str
    ships: int
    share: str
    quote: str

    @property
    def html(self) -> str:
        return f"""<!DOCTYPE html><html><head><title>{self.title}</title></head><body><nav>Home 1 2 3</nav><main>
<h1>{self.title}</h1><p>The station counted <b>{self.ships:,}</b> ships, {self.share} % of them at night.</p>
<p>Its keeper wrote: &ldquo;{self.quote}&rdquo;.</p></main></body></html>"""


def add_pages(site: Site, seed: int) -> list[StationPage]:
    """Add pages and a search engine that finds all of them."""
    random = Random(seed)
    stations = []
    for number in range(PAGES):
        quote = " ".join(random.sample(WORDS, 6))
        share = f"{random.randint(10, 89)}.{random.randint(1, 9)}"
        station = StationPage(
            f"/station/{number}", f"Station {number}", random.randint(10_000, 9_999_999), share, quote
        )
        site.routes[station.path] = html_response(station.html)
        stations.append(station)
    site.routes["/robots.txt"] = ScriptedResponse(
        b"User-agent: *\nDisallow: /private\n", headers={"Content-Type": "text/plain"}
    )
    site.routes[FAILING] = ScriptedResponse(status=500)
    site.routes[REDIRECTED] = redirect(stations[0].path)
    paths = [MISSING, FAILING, REDIRECTED, *(station.path for station in stations)]
    links = "".join(f'<li><a href="{site.url}{path}">{path}</a></li>' for path in paths)
    site.routes[INDEX] = html_response(f"<title>Stations</title><ul>{links}</ul>")
    results = [
        {"title": station.title, "url": f"{site.url}{station.path}", "content": "A station."} for station in stations
    ]
    site.routes["/search"] = json_response({"results": results})
    return stations


def true_statements(site: Site, stations: Sequence[StationPage]) -> list[str]:
    """Return a true statement with a citation for each page, in varying forms."""
    templates = (
        "It counted {0.ships:,} ships {1}.",
        "Es waren {0.ships} Schiffe, {0.share} Prozent davon nachts. {1}",
        "The keeper wrote “{0.quote}” {1}.",
        'In the words of the keeper: "{0.quote}" {1}',
        "According to {1}, {0.share}% passed at night.",
        "该站统计到{0.ships}艘船{1}。",
    )
    return [
        templates[number % len(templates)].format(station, f"[citation:{station.title}]({site.url}{station.path})")
        for number, station in enumerate(stations)
    ]


def false_statements(site: Site, stations: Sequence[StationPage]) -> dict[str, list[str]]:
    """Return false statements by the expected status."""

    def cite(station: StationPage, path: str | None = None) -> str:
        return f"[citation:{station.title}]({site.url}{path or station.path})"

    return {
        "dead": [f"It is known {cite(stations[0], MISSING)}.", f"It is said {cite(stations[0], FAILING)}."],
        "never_fetched": [
            f"Also {stations[-1].ships:,} ships {cite(stations[-1])}.",
            f"And more {cite(stations[-2])}.",
            "And elsewhere [citation:Elsewhere](https://elsewhere.example/).",
        ],
        "number_mismatch": [
            f"It counted {stations[1].ships + 1:,} ships {cite(stations[1])}.",
            f"At night it was {float(stations[2].share) + 0.1:.1f} % {cite(stations[2])}.",
        ],
        "quote_missing": [
            f"The keeper wrote “{stations[3].quote} again” {cite(stations[3])}.",
            f'The keeper wrote "{" ".join(reversed(stations[4].quote.split()))}" {cite(stations[4])}.',
        ],
    }


def write_report(text: str) -> Answer:
    return calling("write_file", description="the report", path=REPORT, content=text)


def render_report(lines: Sequence[str]) -> str:
    return "# Ships at night\n\n" + "\n\n".join(lines) + "\n"


def remove_false_lines(messages: Sequence[BaseMessage]) -> Answer:
    """Write the report without the lines that the last verification rejected."""
    draft = next(call["args"]["content"] for call in tool_calls(messages) if call["name"] == "write_file")
    wrong = {
        result["line"] for result in orjson.loads(str(messages[-1].text))["results"] if result["status"] != "verified"
    }
    lines = [line for number, line in enumerate(draft.splitlines(), 1) if number not in wrong]
    return write_report("\n".join(lines) + "\n")


def tool_calls(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    return [call for message in messages for call in getattr(message, "tool_calls", ())]


@pytest.mark.slow
async def test_false_citations_are_reported_and_removed_and_true_ones_verified(tmp_path: Path) -> None:
    async with open_site() as site:
        stations = add_pages(site, seed=7)
        read_stations = stations[:PAGES_READ]
        true_lines, false_lines = true_statements(site, read_stations), false_statements(site, stations)
        redirected = f"Once more {stations[0].ships:,} ships [citation:Moved]({site.url}{REDIRECTED}#keeper)."
        lines = [*true_lines, redirected, *(line for group in false_lines.values() for line in group)]
        Random(3).shuffle(lines)
        draft = render_report(lines)
        fetched = [*(station.path for station in read_stations), REDIRECTED, MISSING, FAILING]
        verify = calling("verify_citations", filepath=REPORT)
        model = ScriptedModel.saying(
            calling("web_search", query="stations that count ships"),
            calling("web_fetch", url=f"{site.url}{INDEX}"),
            in_parallel(*(calling("web_fetch", url=f"{site.url}{path}") for path in fetched)),
            write_report(draft),
            verify,
            remove_false_lines,
            verify,
            calling("present_files", filepaths=[REPORT]),
            "The report is done.",
        )
        tools = [
            {"name": "web_search", "use": "deerflow.community.searxng.tools:web_search_tool", "base_url": site.url},
            {
                "name": "web_fetch",
                "use": "deerflow.community.web_fetch.tools:web_fetch_tool",
                "allow_private_addresses": True,
            },
        ]
        settings = {"tools": [{**tool, "group": "web"} for tool in tools], "suggestions": {"enabled": False}}
        async with open_sandbox_harness(tmp_path, model, **settings) as harness, asyncio.timeout(LIMIT_S):
            question = f"/deep-research How many ships pass at night? All stations are listed at {site.url}{INDEX} ."
            messages = [{"type": "human", "content": question}]
            run = await harness.runs.create_or_reject(RunRequest("t", messages), LOCAL_USER)
            ended = await harness.runs.join("t", run.run_id, LOCAL_USER)
            assert ended.status is RunStatus.SUCCESS, ended.error
            results = [answer["content"] for answer in await tool_results(harness)]
            stored = await harness.resources.web_pages.list("t", LOCAL_USER, 100, 0)
    first, second = (json.loads(text) for text in results if text.startswith('{"citations"'))
    expected = {line: status for status, group in false_lines.items() for line in group}
    found = {draft.splitlines()[result["line"] - 1]: result["status"] for result in first["results"]}
    assert found == {line: expected.get(line, "verified") for line in lines}
    assert second["citations"] == second["verified"] == PAGES_READ + 1
    assert all(line in (files(tmp_path) / "outputs" / "report.md").read_text() for line in (*true_lines, redirected))
    assert len(stored) == len(fetched) + 1 and sum(page.problem is not None for page in stored) == 2
    assert len(site.routes) > PAGES and "deep-research" in "".join(m.text for m in model.requests[0].messages)
