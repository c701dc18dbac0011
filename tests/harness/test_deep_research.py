"""Deep research on a web of 200 pages of this machine: what is made up is caught and mended, what is true passes."""

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
from tests.community.web_site import ScriptedResponse as Reply
from tests.community.web_site import Site, html_response, json_response, open_site, redirect
from tests.sandbox.support import files, open_sandbox_harness, tool_results

PAGES, READ = 200, 18
REPORT = "/mnt/user-data/outputs/report.md"
LIMIT_S = 60.0
WORDS = ("reed", "heron", "marsh", "ferry", "lantern", "harbour", "gale", "tide", "keeper", "signal", "pier", "fog")
INDEX, GONE, FAILING, MOVED = "/index", "/gone", "/failing", "/moved"


@dataclass(frozen=True)
class Fact:
    """What one page of the web says."""

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


def make_web(site: Site, seed: int) -> list[Fact]:
    """A web of many pages, and a search engine that knows them all."""
    random = Random(seed)
    facts = []
    for number in range(PAGES):
        quote = " ".join(random.sample(WORDS, 6))
        share = f"{random.randint(10, 89)}.{random.randint(1, 9)}"
        fact = Fact(f"/station/{number}", f"Station {number}", random.randint(10_000, 9_999_999), share, quote)
        site.routes[fact.path] = html_response(fact.html)
        facts.append(fact)
    site.routes["/robots.txt"] = Reply(b"User-agent: *\nDisallow: /private\n", headers={"Content-Type": "text/plain"})
    site.routes[FAILING] = Reply(status=500)
    site.routes[MOVED] = redirect(facts[0].path)
    known = [GONE, FAILING, MOVED, *(fact.path for fact in facts)]
    links = "".join(f'<li><a href="{site.url}{path}">{path}</a></li>' for path in known)
    site.routes[INDEX] = html_response(f"<title>Stations</title><ul>{links}</ul>")
    results = [{"title": fact.title, "url": f"{site.url}{fact.path}", "content": "A station."} for fact in facts]
    site.routes["/search"] = json_response({"results": results})
    return facts


def true_lines(site: Site, facts: Sequence[Fact]) -> list[str]:
    """Sentences that are true of their pages, each written in another way."""
    shapes = (
        "It counted {0.ships:,} ships {1}.",
        "Es waren {0.ships} Schiffe, {0.share} Prozent davon nachts. {1}",
        "The keeper wrote “{0.quote}” {1}.",
        'In the words of the keeper: "{0.quote}" {1}',
        "According to {1}, {0.share}% passed at night.",
        "该站统计到{0.ships}艘船{1}。",
    )
    return [
        shapes[number % len(shapes)].format(fact, f"[citation:{fact.title}]({site.url}{fact.path})")
        for number, fact in enumerate(facts)
    ]


def made_up(site: Site, facts: Sequence[Fact]) -> dict[str, list[str]]:
    """Sentences that are not, by what is wrong with them."""

    def cited(fact: Fact, path: str | None = None) -> str:
        return f"[citation:{fact.title}]({site.url}{path or fact.path})"

    return {
        "dead": [f"It is known {cited(facts[0], GONE)}.", f"It is said {cited(facts[0], FAILING)}."],
        "never_fetched": [
            f"Also {facts[-1].ships:,} ships {cited(facts[-1])}.",
            f"And more {cited(facts[-2])}.",
            "And elsewhere [citation:Elsewhere](https://elsewhere.example/).",
        ],
        "number_mismatch": [
            f"It counted {facts[1].ships + 1:,} ships {cited(facts[1])}.",
            f"At night it was {float(facts[2].share) + 0.1:.1f} % {cited(facts[2])}.",
        ],
        "quote_missing": [
            f"The keeper wrote “{facts[3].quote} again” {cited(facts[3])}.",
            f'The keeper wrote "{" ".join(reversed(facts[4].quote.split()))}" {cited(facts[4])}.',
        ],
    }


def write(text: str) -> Answer:
    return calling("write_file", description="the report", path=REPORT, content=text)


def report_of(lines: Sequence[str]) -> str:
    return "# Ships at night\n\n" + "\n\n".join(lines) + "\n"


def mend(messages: Sequence[BaseMessage]) -> Answer:
    """The report without the lines that the last verification has found wrong."""
    draft = next(call["args"]["content"] for call in calls_of(messages) if call["name"] == "write_file")
    wrong = {each["line"] for each in orjson.loads(str(messages[-1].text))["results"] if each["status"] != "verified"}
    kept = [line for number, line in enumerate(draft.splitlines(), 1) if number not in wrong]
    return write("\n".join(kept) + "\n")


def calls_of(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    return [call for message in messages for call in getattr(message, "tool_calls", ())]


@pytest.mark.slow
async def test_what_is_made_up_is_caught_and_mended_and_what_is_true_passes(tmp_path: Path) -> None:
    async with open_site() as site:
        facts = make_web(site, seed=7)
        read = facts[:READ]
        truths, lies = true_lines(site, read), made_up(site, facts)
        moved = f"Once more {facts[0].ships:,} ships [citation:Moved]({site.url}{MOVED}#keeper)."
        lines = [*truths, moved, *(line for group in lies.values() for line in group)]
        Random(3).shuffle(lines)
        draft = report_of(lines)
        opened = [*(fact.path for fact in read), MOVED, GONE, FAILING]
        verify = calling("verify_citations", filepath=REPORT)
        model = ScriptedModel.saying(
            calling("web_search", query="stations that count ships"),
            calling("web_fetch", url=f"{site.url}{INDEX}"),
            in_parallel(*(calling("web_fetch", url=f"{site.url}{path}") for path in opened)),
            write(draft),
            verify,
            mend,
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
            asked = [{"type": "human", "content": question}]
            run = await harness.runs.create_or_reject(RunRequest("t", asked), LOCAL_USER)
            ended = await harness.runs.join("t", run.run_id, LOCAL_USER)
            assert ended.status is RunStatus.SUCCESS, ended.error
            said = [answer["content"] for answer in await tool_results(harness)]
            kept = await harness.resources.web_pages.list("t", LOCAL_USER, 100, 0)
    first, second = (json.loads(text) for text in said if text.startswith('{"citations"'))
    expected = {line: status for status, group in lies.items() for line in group}
    found = {draft.splitlines()[each["line"] - 1]: each["status"] for each in first["results"]}
    assert found == {line: expected.get(line, "verified") for line in lines}
    assert second["citations"] == second["verified"] == READ + 1
    assert all(line in (files(tmp_path) / "outputs" / "report.md").read_text() for line in (*truths, moved))
    assert len(kept) == len(opened) + 1 and sum(page.problem is not None for page in kept) == 2
    assert len(site.routes) > PAGES and "deep-research" in "".join(m.text for m in model.requests[0].messages)
