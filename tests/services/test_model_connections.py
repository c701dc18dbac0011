"""Saved model connections in the database and in memory."""

import asyncio
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from deerflow.domain.errors import Conflict, NotFound
from deerflow.persistence.encryption import TokenCipher
from deerflow.persistence.engine import open_database
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries import model_connections as rows
from deerflow.persistence.queries.model_connections import associated_data
from deerflow.services.saved_models import MAX_AGE_S, SavedModels

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ADDRESS = {"provider": "custom", "base_url": "http://models.example/v1"}


def save(owner: str, *models: str, sealed: bytes | None = b"key", **address: str) -> partial[str]:
    added = [rows.SavedModelRow(model, model, {"entry": {}}) for model in models]
    return partial(rows.save_connection, owner=owner, **{**ADDRESS, **address}, sealed=sealed, added=added, now=NOW)


async def test_two_processes_that_save_at_once_lose_nothing(database_location: Path | str) -> None:
    async with open_database(database_location) as one, open_database(database_location) as other:
        changes = [
            (one if number % 2 else other).write(save("me", f"m{number}", "shared", sealed=b"%d" % number))
            for number in range(8)
        ]
        ids = await asyncio.gather(*changes)
        (found,) = await one.read(partial(rows.list_connections, owner="me"))
    assert set(ids) == {found.connection_id}
    assert sorted(model.name for model in found.models) == [*(f"m{number}" for number in range(8)), "shared"]
    assert found.sealed in [b"%d" % number for number in range(8)]


async def test_rows_of_other_owners_are_neither_seen_nor_changed(database_location: Path | str) -> None:
    async with open_database(database_location) as database:
        mine = await database.write(save("me", "m"))
        theirs = await database.write(save("you", "m"))
        assert mine != theirs
        for change in (
            partial(rows.replace_key, owner="you", connection_id=mine, sealed=b"x", now=NOW),
            partial(rows.delete_connection, owner="you", connection_id=mine),
            partial(rows.delete_saved_model, owner="nobody", name="m"),
        ):
            with pytest.raises(NotFound):
                await database.write(change)
        with pytest.raises(NotFound):
            await database.read(partial(rows.find_connection, owner="you", connection_id=mine))
        await database.write(partial(rows.delete_connection, owner="you", connection_id=theirs))
        (kept,) = await database.read(rows.list_connections)
    assert (kept.owner, kept.sealed, [model.name for model in kept.models]) == ("me", b"key", ["m"])


async def test_names_stay_unique_and_the_number_of_models_is_limited(database_location: Path | str) -> None:
    async with open_database(database_location) as database:
        for number in range(3):
            await database.write(save("me", "m", base_url=f"http://{number}.example/v1"))
        found = await database.read(partial(rows.list_connections, owner="me"))
        names = [model.name for row in found for model in row.models]
        assert len(set(names)) == 3 and names[:2] == ["m", "custom/m"]
        with pytest.raises(Conflict, match="at most 200 models"):
            await database.write(save("me", *(f"n{number}" for number in range(rows.MAX_MODELS))))
        assert await database.read(partial(rows.list_connections, owner="me")) == found


class Clock:
    """Clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def open_saved(database: Database, folder: Path, clock: Clock, secrets: list[str]) -> SavedModels:
    """Return the saved models as a server on a machine of its own has them, with the same encryption key."""
    cipher = TokenCipher(folder / "key", "0123456789" * 4)
    return SavedModels(database, cipher, folder / "stamp", True, {}, secrets.extend, clock)


async def test_a_server_on_another_machine_sees_a_saved_model_after_a_few_seconds(
    database_location: Path | str, tmp_path: Path
) -> None:
    clock, secrets = Clock(), list[str]()
    async with open_database(database_location) as database:
        here, there = (open_saved(database, tmp_path / name, clock, secrets) for name in ("here", "there"))
        await there.refresh()
        sealed = here.cipher.encrypt(b"sk-0123456789", associated_data("me", ADDRESS["base_url"]))
        await database.write(save("me", "m", sealed=sealed))
        await here.publish()
        assert [model.name for model in here.get("me")] == ["m"] and secrets == ["sk-0123456789"]
        await there.refresh()
        assert there.get("me") == ()
        clock.now += MAX_AGE_S + 1
        await there.refresh()
        assert there.get("me") == here.get("me") and there.get("you") == ()


async def test_a_key_cannot_be_moved_to_another_owner_or_address(database_location: Path | str, tmp_path: Path) -> None:
    clock, secrets = Clock(), list[str]()
    async with open_database(database_location) as database:
        saved = open_saved(database, tmp_path, clock, secrets)
        sealed = saved.cipher.encrypt(b"sk-0123456789", associated_data("me", ADDRESS["base_url"]))
        await database.write(save("you", "stolen", sealed=sealed))
        await database.write(save("me", "moved", sealed=sealed, base_url="http://elsewhere.example/v1"))
        await saved.refresh()
        stolen, moved = saved.get("you")[0], saved.get("me")[0]
    assert "api_key" not in stolen.provider_settings and "api_key" not in moved.provider_settings
    assert secrets == []
