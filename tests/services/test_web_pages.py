"""Pages that were read stay as they were, for their owner, as long as their thread, and no longer."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deerflow.domain.errors import NotFound
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.domain.web_pages import FetchedPage, canonicalize_url
from deerflow.persistence.engine import open_database
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries.threads import insert_thread
from deerflow.services.artifacts import WebPageService, to_page_snapshot
from deerflow.services.queries import PageLimits
from deerflow.testing import ScriptedModel
from tests.canary import files_with, tables_with
from tests.community.stored_pages import list_pages
from tests.sandbox.support import open_sandbox_harness

CANARY = "canary4711heron"
PAGE = FetchedPage("https://a.example/", "https://a.example/home", "Home", "text/html", "A heron.")


@pytest.fixture
async def database(database_location: Path | str, tmp_path: Path) -> AsyncIterator[Database]:
    async with open_database(database_location) as opened:
        for thread, owner in (("t", "me"), ("u", "me"), ("theirs", "you")):
            await opened.write(lambda connection, a=thread, b=owner: insert_thread(connection, a, b, {}))
        yield opened


async def test_pages_are_private_to_their_owner(database: Database) -> None:
    kept, me, you = WebPageService(database), Principal("me"), Principal("you")
    page = await kept.for_thread("t", "me").save(PAGE)
    assert page is not None
    for seen in (
        kept.list("t", you, 10, 0),
        kept.get("t", you, page.snapshot_id),
        kept.get("theirs", me, page.snapshot_id),
        kept.get("u", me, page.snapshot_id),
        kept.get("t", me, "0" * 64),
        kept.for_thread("t", "you").save(PAGE),
        kept.for_thread("nowhere", "me").save(PAGE),
        kept.for_thread("t", "you").list(),
        kept.copy("t", "theirs", "me"),
        kept.copy("t", "theirs", "you"),
    ):
        with pytest.raises(NotFound):
            await seen
    assert (await kept.get_totals("t", you)).pages == 0 and await kept.for_thread("t", "you").read_texts(
        [page.text_hash]
    ) == {}


async def test_a_changed_page_is_a_new_snapshot(database: Database) -> None:
    pages = WebPageService(database).for_thread("t", "me")
    first, again = await pages.save(PAGE), await pages.save(PAGE)
    changed = await pages.save(replace(PAGE, text="A stork."))
    elsewhere = await pages.save(replace(PAGE, url="https://b.example/"))
    failed = await pages.save(FetchedPage("https://c.example/", "https://c.example/", problem="Rejected: gone"))
    assert first == again, "with the time when it was first seen"
    assert await pages.list() == [first, changed, elsewhere, failed]
    assert first and changed and first.text_hash and changed.text_hash
    assert await pages.read_texts([first.text_hash, changed.text_hash, "0" * 64]) == {
        first.text_hash: "A heron.",
        changed.text_hash: "A stork.",
    }
    held = await WebPageService(database).get_totals("t", Principal("me"))
    assert (held.pages, held.chars) == (4, len("A heron.A stork.")), "a text is kept once"


async def test_stores_a_concurrently_fetched_page_once(database: Database) -> None:
    pages = WebPageService(database).for_thread("t", "me")
    kept = await asyncio.gather(*(pages.save(PAGE) for _ in range(20)))
    assert len(set(kept)) == 1 and len(await pages.list()) == 1


async def test_limits_pages_and_text_of_a_thread(database: Database) -> None:
    pages = WebPageService(database, PageLimits(pages=3, chars=10)).for_thread("t", "me")
    small = await pages.save(replace(PAGE, text="12345678"))
    large = await pages.save(replace(PAGE, text="x" * 11))
    assert small and small.is_kept and large and not large.is_kept
    same = await pages.save(replace(PAGE, url="https://other.example/", text="12345678"))
    assert same and same.is_kept, "its text is there already"
    assert await pages.save(replace(PAGE, url="https://more.example/")) is None
    assert await pages.save(replace(PAGE, text="12345678")) == small, "what is known stays known"
    assert [page.is_kept for page in await pages.list()] == [True, False, True]
    assert await pages.read_texts([large.text_hash or ""]) == {}


async def test_replaces_null_characters_before_hashing(database: Database) -> None:
    pages = WebPageService(database).for_thread("t", "me")
    page = await pages.save(replace(PAGE, title="a\0b", text="c\0d"))
    assert page and page.text_hash and await pages.read_texts([page.text_hash]) == {page.text_hash: "c\ufffdd"}
    assert to_page_snapshot(PAGE, "c\ufffdd").text_hash == page.text_hash


async def test_copies_pages_to_a_branch_and_deletes_them_with_the_thread(
    database_location: Path | str, tmp_path: Path
) -> None:
    text = f"{CANARY} " + "fish " * 3000
    read = FetchedPage(f"https://a.example/{CANARY}", f"https://b.example/{CANARY}", CANARY, "text/html", text)
    gone = FetchedPage(f"https://c.example/{CANARY}", f"https://c.example/{CANARY}", problem=f"Rejected: no {CANARY}")
    async with open_sandbox_harness(tmp_path, ScriptedModel.saying()) as harness, asyncio.timeout(60):
        await harness.threads.create(LOCAL_USER, "t", {}, may_exist=False)
        for page in (read, gone):
            await harness.resources.web_pages.for_thread("t", LOCAL_USER.user_id).save(page)
        before = await list_pages(harness)
        copy = await harness.threads.copy("t", LOCAL_USER)
        assert await list_pages(harness, copy.thread_id) == before and len(before) == 2
        await harness.threads.delete("t", LOCAL_USER)
        assert await list_pages(harness, copy.thread_id) == before, "each thread has its own"
        await harness.threads.delete(copy.thread_id, LOCAL_USER)
        assert files_with(CANARY, tmp_path) == []
        assert isinstance(database_location, Path) or tables_with(CANARY, database_location) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://Example.org", "https://example.org/"),
        ("https://example.org:443/a/#part", "https://example.org/a"),
        ("http://example.org:80/a?b=c", "http://example.org/a?b=c"),
        ("https://example.org/a%20b%C3%BC", "https://example.org/a b%c3%bc"),
        ("https://example.org/ü", "https://example.org/%C3%BC"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
    ],
)
def test_canonical_urls_of_one_page_are_equal(one: str, other: str) -> None:
    assert canonicalize_url(one) == canonicalize_url(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://example.org/", "https://example.org/"),
        ("https://example.org/a", "https://example.org/A"),
        ("https://example.org/a?b=1", "https://example.org/a?b=2"),
        ("https://example.org/a%2Fb", "https://example.org/a/b"),
        ("https://example.org/?a=1%26b", "https://example.org/?a=1&b"),
        ("https://example.org:8443/", "https://example.org/"),
    ],
)
def test_canonical_urls_of_two_pages_differ(one: str, other: str) -> None:
    assert canonicalize_url(one) != canonicalize_url(other)


@settings(deadline=None)
@given(st.text(max_size=60).map(lambda text: f"http://a.example/{text}") | st.text(max_size=60))
def test_canonicalizing_a_url_is_idempotent(url: str) -> None:
    assert canonicalize_url(canonicalize_url(url)) == canonicalize_url(url)
