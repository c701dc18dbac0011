"""Pages that were read stay as they were, for their owner, as long as their thread, and no longer."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deerflow.domain.errors import NotFound
from deerflow.domain.pages import ReadPage, same_page
from deerflow.domain.principal import LOCAL_USER, Principal
from deerflow.persistence.database import Database, open_database
from deerflow.persistence.pages import PageLimits
from deerflow.persistence.threads import insert_thread
from deerflow.runtime.pages import WebPages, snapshot_of
from deerflow.testing import ScriptedModel
from tests.canary import files_with, tables_with
from tests.community.keeping import pages_of
from tests.sandbox.desk import desk

CANARY = "canary4711heron"
PAGE = ReadPage("https://a.example/", "https://a.example/home", "Home", "text/html", "A heron.")


@pytest.fixture
async def database(database_place: Path | str, tmp_path: Path) -> AsyncIterator[Database]:
    async with open_database(database_place) as opened:
        for thread, owner in (("t", "me"), ("u", "me"), ("theirs", "you")):
            await opened.write(lambda connection, a=thread, b=owner: insert_thread(connection, a, b, {}))
        yield opened


async def test_nobody_else_sees_a_page_or_puts_one_into_a_thread(database: Database) -> None:
    kept, me, you = WebPages(database), Principal("me"), Principal("you")
    page = await kept.of_thread("t", "me").keep(PAGE)
    assert page is not None
    for seen in (
        kept.list("t", you, 10, 0),
        kept.get("t", you, page.snapshot_id),
        kept.get("theirs", me, page.snapshot_id),
        kept.get("u", me, page.snapshot_id),
        kept.get("t", me, "0" * 64),
        kept.of_thread("t", "you").keep(PAGE),
        kept.of_thread("nowhere", "me").keep(PAGE),
        kept.of_thread("t", "you").all(),
        kept.copy("t", "theirs", "me"),
        kept.copy("t", "theirs", "you"),
    ):
        with pytest.raises(NotFound):
            await seen
    assert (await kept.held("t", you)).pages == 0 and await kept.of_thread("t", "you").texts([page.text_hash]) == {}


async def test_a_page_read_again_is_the_same_and_one_that_has_changed_is_another(database: Database) -> None:
    pages = WebPages(database).of_thread("t", "me")
    first, again = await pages.keep(PAGE), await pages.keep(PAGE)
    changed = await pages.keep(replace(PAGE, text="A stork."))
    elsewhere = await pages.keep(replace(PAGE, url="https://b.example/"))
    failed = await pages.keep(ReadPage("https://c.example/", "https://c.example/", problem="Rejected: gone"))
    assert first == again, "with the time when it was first seen"
    assert await pages.all() == [first, changed, elsewhere, failed]
    assert first and changed and first.text_hash and changed.text_hash
    assert await pages.texts([first.text_hash, changed.text_hash, "0" * 64]) == {
        first.text_hash: "A heron.",
        changed.text_hash: "A stork.",
    }
    held = await WebPages(database).held("t", Principal("me"))
    assert (held.pages, held.chars) == (4, len("A heron.A stork.")), "a text is kept once"


async def test_a_page_that_several_read_at_once_is_kept_once(database: Database) -> None:
    pages = WebPages(database).of_thread("t", "me")
    kept = await asyncio.gather(*(pages.keep(PAGE) for _ in range(20)))
    assert len(set(kept)) == 1 and len(await pages.all()) == 1


async def test_a_thread_holds_only_so_much(database: Database) -> None:
    pages = WebPages(database, PageLimits(pages=3, chars=10)).of_thread("t", "me")
    small = await pages.keep(replace(PAGE, text="12345678"))
    large = await pages.keep(replace(PAGE, text="x" * 11))
    assert small and small.is_kept and large and not large.is_kept
    same = await pages.keep(replace(PAGE, url="https://other.example/", text="12345678"))
    assert same and same.is_kept, "its text is there already"
    assert await pages.keep(replace(PAGE, url="https://more.example/")) is None
    assert await pages.keep(replace(PAGE, text="12345678")) == small, "what is known stays known"
    assert [page.is_kept for page in await pages.all()] == [True, False, True]
    assert await pages.texts([large.text_hash or ""]) == {}


async def test_what_postgresql_cannot_hold_is_replaced_and_the_hash_is_that_of_what_is_kept(database: Database) -> None:
    pages = WebPages(database).of_thread("t", "me")
    page = await pages.keep(replace(PAGE, title="a\0b", text="c\0d"))
    assert page and page.text_hash and await pages.texts([page.text_hash]) == {page.text_hash: "c\ufffdd"}
    assert snapshot_of(PAGE, "c\ufffdd").text_hash == page.text_hash


async def test_a_branch_takes_the_pages_along_and_what_is_deleted_leaves_no_byte(
    database_place: Path | str, tmp_path: Path
) -> None:
    text = f"{CANARY} " + "fish " * 3000
    read = ReadPage(f"https://a.example/{CANARY}", f"https://b.example/{CANARY}", CANARY, "text/html", text)
    gone = ReadPage(f"https://c.example/{CANARY}", f"https://c.example/{CANARY}", problem=f"Rejected: no {CANARY}")
    async with desk(tmp_path, ScriptedModel.saying()) as harness, asyncio.timeout(60):
        await harness.threads.create(LOCAL_USER, "t", {}, may_exist=False)
        for page in (read, gone):
            await harness.resources.web_pages.of_thread("t", LOCAL_USER.user_id).keep(page)
        before = await pages_of(harness)
        copy = await harness.threads.copy("t", LOCAL_USER)
        assert await pages_of(harness, copy.thread_id) == before and len(before) == 2
        await harness.threads.delete("t", LOCAL_USER)
        assert await pages_of(harness, copy.thread_id) == before, "each thread has its own"
        await harness.threads.delete(copy.thread_id, LOCAL_USER)
        assert files_with(CANARY, tmp_path) == []
        assert isinstance(database_place, Path) or tables_with(CANARY, database_place) == []


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
def test_addresses_of_one_page_are_the_same(one: str, other: str) -> None:
    assert same_page(one) == same_page(other)


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
def test_addresses_of_two_pages_are_not(one: str, other: str) -> None:
    assert same_page(one) != same_page(other)


@settings(deadline=None)
@given(st.text(max_size=60).map(lambda text: f"http://a.example/{text}") | st.text(max_size=60))
def test_the_common_form_of_an_address_is_that_of_itself(url: str) -> None:
    assert same_page(same_page(url)) == same_page(url)
