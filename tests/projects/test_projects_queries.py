"""Projects, their queue and their passages on SQLite and on PostgreSQL."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from deerflow.domain.errors import Conflict, NotFound
from deerflow.domain.projects import ExtractedPassage, ExtractedText
from deerflow.persistence.engine import open_database
from deerflow.persistence.engine.database import Database
from deerflow.projects.queries import passages, projects
from deerflow.projects.queries.projects import QueuedFile
from tests.databases import database_location

__all__ = ["database_location"]  # a fixture
pytestmark = pytest.mark.parametrize("database_location", ["sqlite", "postgres"], indirect=True)

LEASE = timedelta(seconds=30)
TEXTS = (
    "The blue whale is the largest animal.",
    "A blue car, and a whale on a poster far away from it.",
    "Delivery takes three days longer in winter.",
    "蓝鲸是最大的动物。",
)


@pytest.fixture
async def database(database_location: Path | str) -> AsyncIterator[Database]:
    async with open_database(database_location) as opened:
        yield opened


async def create(database: Database, project_id: str, *names: str, owner: str = "me") -> None:
    make = partial(projects.create_project, owner=owner, name=project_id, instructions="")
    await database.write(partial(make, project_id=project_id))
    add = partial(projects.add_files, project_id=project_id, owner=owner, limit=10)
    await database.write(partial(add, files=[(name, 1) for name in names]))


async def claim(database: Database, name: str = "one", lease: timedelta = LEASE) -> Sequence[QueuedFile]:
    return await database.write(partial(projects.claim_files, claim=name, lease=lease, limit=10))


async def index(database: Database, *texts: str) -> None:
    """Store the texts as the pages of the next file in the queue."""
    (file,) = await claim(database)
    found = [ExtractedPassage(number, text) for number, text in enumerate(texts, 1)]
    await database.write(partial(passages.store_file, file=file, extracted=ExtractedText("page", len(found), found)))


async def find(database: Database, query: str, project_id: str = "p", owner: str = "me") -> list[tuple[str, int]]:
    found = await database.read(partial(passages.search_terms, project_id=project_id, query=query, limit=9))
    load = partial(passages.load_hits, project_id=project_id, owner=owner, row_ids=found)
    return [(hit.file_name, hit.position) for hit in await database.read(load)]


async def test_words_are_found_with_their_page_and_words_next_to_each_other_first(database: Database) -> None:
    await create(database, "p", "notes.md")
    await index(database, *TEXTS)
    assert await find(database, "blue whale") == [("notes.md", 1), ("notes.md", 2)]
    assert await find(database, "how long is delivery in winter?") == [("notes.md", 3)]
    assert await find(database, "蓝鲸") == [("notes.md", 4)]
    assert await find(database, "nothing") == [] and await find(database, "?") == []


async def test_passages_of_other_projects_and_owners_are_not_found(database: Database) -> None:
    await create(database, "p", "mine.md")
    await index(database, TEXTS[0])
    await create(database, "q", "theirs.md", owner="other")
    await index(database, TEXTS[0])
    assert await find(database, "whale") == [("mine.md", 1)]
    assert await find(database, "whale", "q", "other") == [("theirs.md", 1)]
    assert await find(database, "whale", "q") == []


async def test_the_most_similar_vectors_are_found(database: Database) -> None:
    await create(database, "p", "notes.md")
    await index(database, *TEXTS[:3])
    unembedded = partial(passages.list_unembedded, model="m", limit=10)
    rows = await database.read(unembedded)
    vectors = [(row.passage_id, [float(n == number) for n in range(3)]) for number, row in enumerate(rows)]
    await database.write(partial(passages.save_vectors, model="m", vectors=vectors))
    assert await database.read(unembedded) == []
    wanted = partial(passages.search_vectors, project_id="p", wanted=[0.1, 0.2, 0.9], limit=1)
    assert await database.read(partial(wanted, model="m")) == [rows[2].passage_id]
    assert await database.read(partial(wanted, model="another")) == []


async def test_a_file_is_claimed_once_and_again_when_its_claim_expires(database: Database) -> None:
    await create(database, "p", "a.md", "b.md")
    (first, second) = await claim(database, lease=timedelta(seconds=-1))
    assert (first.attempts, second.attempts) == (1, 1)
    (again,) = await claim(database, "two")  # alone: it may be the one that ended the process
    assert (again.attempts, again.claim) == (2, "two")
    extracted = ExtractedText("page", 1, [ExtractedPassage(1, TEXTS[0])])
    stale = next(file for file in (first, second) if file.file_id == again.file_id)
    await database.write(partial(passages.store_file, file=stale, extracted=extracted))
    assert await find(database, "whale") == []
    await database.write(partial(passages.store_file, file=again, extracted=extracted))
    assert await find(database, "whale") == [(again.name, 1)]


async def test_a_deleted_project_is_hidden_at_once_and_purged(database: Database) -> None:
    await create(database, "p", "notes.md")
    await index(database, *TEXTS)
    await database.write(partial(projects.delete_project, project_id="p", owner="me"))
    with pytest.raises(NotFound):
        await database.read(partial(projects.find_project, project_id="p", owner="me"))
    purged = await database.read(projects.find_purge)
    assert purged is not None and (purged.project_id, purged.owner) == ("p", "me")
    assert not await database.write(partial(projects.purge_passages, project_id="p"))
    await database.write(partial(projects.finish_purge, project_id="p"))
    assert await database.read(projects.find_purge) is None
    assert await find(database, "whale") == []


async def test_a_project_has_a_limit_of_files_and_a_failed_one_can_be_tried_again(database: Database) -> None:
    await create(database, "p", "a.md")
    add = partial(projects.add_files, project_id="p", owner="me", files=[("b.md", 1)], limit=1)
    with pytest.raises(Conflict, match="at most 1 files"):
        await database.write(add)
    (file,) = await claim(database)
    await database.write(partial(projects.fail_file, file=file, problem="it is damaged"))
    states = partial(projects.count_states, project_id="p", owner="me")
    assert await database.read(states) == {"failed": 1}
    again = partial(projects.requeue_file, project_id="p", owner="me", file_id=file.file_id)
    assert (await database.write(again)).state == "waiting"
    with pytest.raises(Conflict, match="waiting already"):
        await database.write(again)
