"""Finding what was said in any thread: in every script, only one's own, and nothing that was taken back."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, insert, select, text

from deerflow.domain.errors import InvalidRequest
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.domain.runs import CancelAction, RunRequest, RunStatus
from deerflow.domain.threads import SearchableMessage, SearchHit
from deerflow.harness import Harness
from deerflow.persistence.engine import open_database
from deerflow.persistence.queries.search import PART_CHARS, index_messages, search_text
from deerflow.persistence.queries.threads import insert_thread
from deerflow.persistence.queries.tokenizer import extract_terms, find_matches, parse_query, tokenize
from deerflow.persistence.tables import search_backlog, search_messages, threads
from deerflow.services.search import index_backlog
from deerflow.testing import Answer, ScriptedModel, Stall
from tests.runtime.support import simulate_crash, wait_for_text
from tests.support import OpenHarness


async def finish_run(
    harness: Harness, asked: str, thread: str = "t", who: Principal = LOCAL_USER, **more: object
) -> str:
    """Send a message, wait for the end of its run, and return its id."""
    request = RunRequest(thread, [{"type": "human", "content": asked}], **more)  # type: ignore[arg-type]
    run = await harness.runs.create_or_reject(request, who)
    async with asyncio.timeout(20):
        ended = await harness.runs.join(thread, run.run_id, who)
    assert ended.status is RunStatus.SUCCESS
    return run.run_id


async def search(harness: Harness, query: str, who: Principal = LOCAL_USER, limit: int = 50) -> Sequence[SearchHit]:
    return (await harness.resources.search.search(who, query, limit)).hits


async def search_texts(harness: Harness, query: str, who: Principal = LOCAL_USER) -> list[str]:
    """Return the found messages in alphabetical order, without titles."""
    return sorted(hit.snippet for hit in await search(harness, query, who) if hit.role != "title")


NEEDLES = {
    "The Invoice of MÜLLER is due": ["invoice", "müller", "MULLER due", "inv", "Invoice of Müller"],
    "我们的数据库连接失败了": ["库", "数据", "数据库", "连接失败", "失败 数据", "了"],
    "在 PostgreSQL 里建立索引 index": ["索引", "postgresql 索引", "postgres", "里", "index 建"],
    "call parse_configFile() of HTTPServer v2": [
        "parse_configFile",
        "parseconfigf",
        "httpserver",
        "http",
        "parse config",
    ],
    "東京タワーは高い。서울은 크다": ["タワー", "東京", "高", "서울", "서"],
    "ｆｕｌｌ width １２３ and naïve café": ["full", "123", "naive", "café"],
    "กรุงเทพมหานคร is Bangkok": ["เทพ", "bangkok"],
    "Straße und ﬁn": ["strasse", "fin"],
}


async def test_finds_and_highlights_words_in_every_script(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying(*["Indeed."] * len(NEEDLES))) as harness:
        for number, hay in enumerate(NEEDLES):
            await finish_run(harness, hay, thread=f"t{number}")
        for hay, queries in NEEDLES.items():
            for query in queries:
                hits = [hit for hit in await search(harness, query) if hit.role == "human"]
                assert [hit.snippet for hit in hits] == [hay], query
                assert hits[0].highlights and all(0 <= start < end <= len(hay) for start, end in hits[0].highlights)


async def test_a_hit_has_its_location_and_highlights(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("Rome has seven hills.")) as harness:
        run_id = await finish_run(harness, "Tell me about Rome")
        ai, human, title = sorted(await search(harness, "rome"), key=lambda hit: hit.role)
        assert (ai.role, ai.snippet, ai.highlights) == ("ai", "Rome has seven hills.", [(0, 4)])
        assert (human.role, human.highlights, human.run_id, human.thread_id) == ("human", [(14, 18)], run_id, "t")
        assert human.message_id and human.title == "Tell me about Rome"
        assert (title.role, title.message_id, title.snippet) == ("title", None, "Tell me about Rome")


async def test_does_not_find_messages_of_other_users(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("Mine 4711.", "Theirs 4711.")) as harness:
        await finish_run(harness, "secret")
        await finish_run(harness, "secret", thread="u", who=Principal("other"))
        assert await search_texts(harness, "4711") == ["Mine 4711."]
        assert {hit.thread_id for hit in await search(harness, "secret", Principal("other"))} == {"u"}
        assert await search_texts(harness, "4711", Principal("nobody")) == []


OPERATORS = """ " * NEAR(a,b) a AND|NOT ^x terms:x - a:* '"OR"1=1-- ( ) <-> & | !b \0 \\ 🙂 % """


async def test_ignores_punctuation_in_queries(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("Yes.")) as harness:
        await finish_run(harness, "hello")
        for query in [*OPERATORS.split(), OPERATORS, "a" * 500, '"hello', "hello*", "hello\0", "NOT hello"]:
            found = await search_texts(harness, query)
            assert found == (["hello"] if "hello" in query and "NOT" not in query else []), query


async def test_ranks_hits_and_returns_pages(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying(*["Yes."] * 5)) as harness:
        hay = "about many other things that have nothing to do with it and go on for long " * 3
        for number, said in enumerate([hay + "zebra", "zebra zebra zebra", hay, hay + "zebra again", "one zebra"]):
            await finish_run(harness, said, thread=f"t{number}")
        hits = [hit for hit in await search(harness, "zebra") if hit.role == "human"]
        assert len(hits) == 4 and {hits[0].thread_id, hits[1].thread_id} == {"t1", "t4"}
        pages, cursor = [], None
        while not pages or cursor:
            page = await harness.resources.search.search(LOCAL_USER, "zebra", 2, cursor)
            pages, cursor = [*pages, *page.hits], page.next_cursor
        assert pages == await search(harness, "zebra")
        for wrong in ("x", "-1", "1.5", "²", "9" * 30, "99999"):
            with pytest.raises(InvalidRequest):
                await harness.resources.search.search(LOCAL_USER, "zebra", 2, wrong)


async def test_finds_words_deep_in_a_long_message(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("长" * 3 * PART_CHARS + "针在这里")) as harness:
        await finish_run(harness, "word " * 5 * PART_CHARS + "needle")
        (hit,) = await search(harness, "needle")
        assert hit.snippet[slice(*hit.highlights[0])] == "needle"
        (hit,) = await search(harness, "针在")
        assert hit.snippet[slice(*hit.highlights[0])] == "针在"


async def test_does_not_find_messages_of_abandoned_branches(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("First.", "Walrus.", "Seal.")) as harness:
        await finish_run(harness, "one")
        origin = (await harness.threads.state("t", LOCAL_USER)).checkpoint_id
        await finish_run(harness, "two")
        assert await search_texts(harness, "walrus") == ["Walrus."]
        await finish_run(harness, "three", checkpoint_id=origin)
        assert await search_texts(harness, "walrus") == await search_texts(harness, "two") == []
        assert await search_texts(harness, "seal") == ["Seal."]
        assert await search_texts(harness, "first") == ["First."] and await search_texts(harness, "one") == ["one"]


async def test_finds_interrupted_but_not_rolled_back_messages(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying(Stall(Answer("Undone")), Stall(Answer("Broken off")))) as harness:
        for action, word in ((CancelAction.ROLLBACK, "Undone"), (CancelAction.INTERRUPT, "off")):
            request = RunRequest("t", [{"type": "human", "content": f"please {action}"}])
            run = await harness.runs.create_or_reject(request, LOCAL_USER)
            async with asyncio.timeout(20):
                await wait_for_text(harness, run, word)
                await harness.runs.cancel("t", run.run_id, LOCAL_USER, action)
        assert await search_texts(harness, "undone") == [] and await search_texts(harness, "rollback") == []
        assert await search_texts(harness, "broken") == ["Broken off"] and await search_texts(harness, "interrupt") == [
            "please interrupt"
        ]


async def test_finds_a_resumed_run_once(database_location: Path | str, harness_saying: OpenHarness) -> None:
    async with asyncio.timeout(30):
        async with harness_saying(ScriptedModel.saying(Stall(Answer("Half a walrus")))) as harness:
            request = RunRequest("t", [{"type": "human", "content": "Draw"}])
            run = await harness.runs.create_or_reject(request, LOCAL_USER)
            await wait_for_text(harness, run, "walrus")
        await simulate_crash(database_location)
        async with harness_saying(ScriptedModel.saying("A whole walrus")) as harness:
            await harness.runs.join("t", run.run_id, LOCAL_USER)
            assert await search_texts(harness, "walrus") == ["A whole walrus"] and await search_texts(
                harness, "draw"
            ) == ["Draw"]


async def test_indexes_manual_state_updates(
    harness_saying: OpenHarness,
) -> None:
    async with harness_saying(ScriptedModel.saying("An otter.")) as harness:
        await finish_run(harness, "Which animal?")
        (_, message) = orjson.loads((await harness.threads.state("t", LOCAL_USER)).values)["messages"]
        changed = {"type": "ai", "id": message["id"], "content": "A beaver."}
        await harness.threads.update_state("t", LOCAL_USER, {"messages": [changed]}, "model")
        assert await search_texts(harness, "otter") == [] and await search_texts(harness, "beaver") == ["A beaver."]
        copy = await harness.threads.copy("t", LOCAL_USER)
        assert {hit.thread_id for hit in await search(harness, "beaver")} == {"t", copy.thread_id}
        gone = {"type": "remove", "id": message["id"], "content": ""}
        await harness.threads.update_state("t", LOCAL_USER, {"messages": [gone]}, "model")
        assert {hit.thread_id for hit in await search(harness, "beaver")} == {copy.thread_id}


async def test_a_deleted_thread_leaves_no_terms_in_the_index(
    database_location: Path | str, harness_saying: OpenHarness
) -> None:
    async with harness_saying(ScriptedModel.saying(*["canary4711 金丝雀"] * 6)) as harness:
        for number in range(3):
            await finish_run(harness, "canary4711 asks", thread=f"gone{number}")
        await finish_run(harness, "keep this canary4711", thread="kept")
        for number in range(3):
            await harness.threads.delete(f"gone{number}", LOCAL_USER)
        assert {hit.thread_id for hit in await search(harness, "canary4711")} == {"kept"}
        await harness.threads.delete("kept", LOCAL_USER)
        assert await search(harness, "canary4711") == []

    def leftovers(connection: Connection) -> int:
        if connection.dialect.name != "sqlite":
            return connection.execute(text("SELECT count(*) FROM search_terms")).scalar() or 0
        blocks = connection.execute(text("SELECT block FROM search_terms_data")).scalars().all()
        return sum(b"canary4711" in block or "金丝".encode() in block for block in blocks)

    async with open_database(database_location) as database:
        assert await database.read(leftovers) == 0


async def test_similar_owner_ids_are_different_owners(database_location: Path | str) -> None:
    owners = ["ann", "ann-2", "ann 2", "Ann", 'ann" OR terms : whale', "a" * 64]
    async with open_database(database_location) as database:
        for number, owner in enumerate(owners):
            await database.write(partial(insert_thread, thread_id=f"t{number}", owner=owner, metadata={}))
            said = [SearchableMessage("m", "ai", "blue whale", datetime.now(UTC))]
            await database.write(partial(index_messages, thread_id=f"t{number}", owner=owner, messages=said))
        for number, owner in enumerate(owners):
            found = await database.read(partial(search_text, owner=owner, query="whale", limit=50))
            assert [hit.thread_id for hit in found] == [f"t{number}"]


async def test_a_frequent_word_that_may_be_unfinished_is_taken_as_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deerflow.persistence.queries.search.MAX_CANDIDATES", 3)
    words = ["blue whale", "blue whaler", "whale", "whaler", "whale", "whales", "whale"]
    said = [SearchableMessage(str(number), "ai", word, datetime.now(UTC)) for number, word in enumerate(words)]
    async with open_database(tmp_path / "d.db") as database:
        await database.write(partial(insert_thread, thread_id="t", owner="me", metadata={}))
        await database.write(partial(index_messages, thread_id="t", owner="me", messages=said))

        async def find(query: str) -> list[str]:
            return [hit.snippet for hit in await database.read(partial(search_text, owner="me", query=query, limit=9))]

        assert await find("whale") == ["whale"] * 3
        assert await find("blue whale") == ["blue whale"]
        assert sorted(await find("whal")) == ["whale", "whale", "whales"]  # the newest
        assert await find("whaler") == ["whaler", "blue whaler"]


async def test_indexes_the_backlog(database_location: Path | str, harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying("First.", "Walrus.", "Seal.", "Newer.")) as harness:
        await finish_run(harness, "one")
        origin = (await harness.threads.state("t", LOCAL_USER)).checkpoint_id
        await finish_run(harness, "two")
        await finish_run(harness, "three", checkpoint_id=origin)
        before = await list_hits(harness)

    def forget(connection: Connection) -> None:
        connection.execute(search_messages.delete())
        connection.execute(insert(search_backlog).from_select(["thread_id"], select(threads.c.thread_id)))

    async with open_database(database_location) as database:
        await database.write(forget)
    async with harness_saying(ScriptedModel.saying("Newer.")) as harness:
        async with asyncio.timeout(10):
            await index_backlog(harness.resources.search.database)
        assert await list_hits(harness) == before
        assert await search_texts(harness, "walrus") == [] and await search_texts(harness, "seal") == ["Seal."]


async def list_hits(harness: Harness) -> list[tuple[str, str, str]]:
    words = ("one", "two", "three", "first", "walrus", "seal")
    return sorted(
        [(hit.snippet, hit.message_id or "", hit.role) for word in words for hit in await search(harness, word)]
    )


@given(st.from_regex("[0aA_²é好]{0,9}") | st.text(max_size=200), st.data())
def test_finds_any_token_at_its_position(said: str, data: st.DataObject) -> None:
    words = list(tokenize(said))
    assert all(0 <= word.start < word.end <= len(said) and word.text and " " not in word.text for word in words)
    assert len(words) <= 2 * len(said) + 1
    assert extract_terms(said) == [word.text for word in words]
    if words:
        word = data.draw(st.sampled_from(words))
        looked_for = parse_query(said[word.start : word.end])
        assert looked_for and find_matches(said, looked_for)


async def test_indexes_messages_with_unusual_ids(harness_saying: OpenHarness) -> None:
    ids = ["a" * 300, "a" * 299 + "b", "nul\0", "好" * 200]
    async with harness_saying(ScriptedModel.saying("Yes.")) as harness:
        messages = [{"type": "human", "id": id_, "content": f"otter {number}"} for number, id_ in enumerate(ids)]
        run = await harness.runs.create_or_reject(RunRequest("t", messages), LOCAL_USER)
        async with asyncio.timeout(20):
            assert (await harness.runs.join("t", run.run_id, LOCAL_USER)).status is RunStatus.SUCCESS
        assert await search_texts(harness, "otter") == [f"otter {number}" for number in range(4)]
