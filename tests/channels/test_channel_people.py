"""People of chat apps: nobody is known at first, codes connect one account each, and rights are those of the user."""

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from deerflow.channels import queries as rows
from deerflow.channels.people import create_code, hash_code
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.testing import ScriptedModel
from deerflow.testing.channels.telegram import FakeTelegram
from tests.channels.attacks import ATTACKS, PRESSES
from tests.channels.support import OWNER, ConnectedServer, CreateFake, connect, each_app

STRANGER, GROUP = 66, -100
PASSWORD = "a long enough password"


async def settle(server: ConnectedServer) -> None:
    """Wait until all updates are confirmed, and what they caused is done."""
    await server.wait(lambda: server.fake.unconfirmed == 0)


@each_app
async def test_an_empty_list_of_people_admits_no_one(tmp_path: Path, create_fake: CreateFake) -> None:
    async with create_fake() as fake, connect(tmp_path, fake, ScriptedModel.saying(), allowed=()) as server:
        assert "/connect CODE" in (await server.ask("Hi"))[0]
        for at in range(5):
            fake.write(f"Hi {at}")
        await settle(server)
        assert len(server.texts()) == 1  # a stranger is told once


@each_app
async def test_a_code_connects_one_account_once(tmp_path: Path, create_fake: CreateFake) -> None:
    async with (
        create_fake() as fake,
        connect(tmp_path, fake, ScriptedModel.saying("Hi"), allowed=()) as server,
    ):
        code = await server.create_code()
        assert "Connected" in (await server.ask(f"/connect {code.lower()}"))[0]
        assert (await server.ask("Hello"))[1] == "Hi"
        assert "wrong, used" in (await server.ask(f"/connect {code}", chat=STRANGER, sender=STRANGER))[0]


@each_app
async def test_a_code_expires_after_ten_minutes(tmp_path: Path, create_fake: CreateFake) -> None:
    async with create_fake() as fake, connect(tmp_path, fake, ScriptedModel.saying(), allowed=()) as server:
        created = await create_code(server.harness.core.database, LOCAL_USER)
        assert timedelta(minutes=9) < created.expires_at - datetime.now(UTC) <= timedelta(minutes=10)
        late = datetime.now(UTC) - timedelta(seconds=1)
        change = partial(rows.insert_code, owner=LOCAL_USER.user_id, code_hash=hash_code("OLDCODE222"), expires_at=late)
        await server.harness.core.database.write(change)
        assert "wrong, used" in (await server.ask("/connect OLDCODE222"))[0]


@each_app
async def test_a_code_is_not_taken_in_a_group(tmp_path: Path, create_fake: CreateFake) -> None:
    async with create_fake() as fake, connect(tmp_path, fake, ScriptedModel.saying(), allowed=()) as server:
        code = await server.create_code()
        texts = await server.ask(f"/connect@deer_bot {code}", chat=GROUP, sender=OWNER)
        assert "private chat" in texts[0]
        assert "Connected" in (await server.ask(f"/connect {code}"))[0]


@each_app
async def test_members_of_a_group_act_with_their_own_rights(tmp_path: Path, create_fake: CreateFake) -> None:
    async with create_fake() as fake, connect(tmp_path, fake, ScriptedModel.saying("A", "B")) as server:
        accounts = server.harness.resources.accounts
        users = [await accounts.add(f"{name}@example.com", PASSWORD, "user") for name in ("ann", "bob", "cem")]
        for sender, user in zip((11, 12), users[1:], strict=True):
            code = await server.create_code(Principal(user.user_id))
            await server.ask(f"/connect {code}", chat=sender, sender=sender)
        for sender in (11, 12):
            await server.ask("@deer_bot Hi", chat=GROUP, sender=sender)
        owners = set()
        for user in users[1:]:
            found = await server.harness.threads.search(Principal(user.user_id), 10, 0)
            owners |= {thread.owner for thread in found}
            assert len(found) == 1
        assert owners == {user.user_id for user in users[1:]}


@each_app
async def test_with_accounts_the_list_of_people_counts_no_more(tmp_path: Path, create_fake: CreateFake) -> None:
    async with create_fake() as fake, connect(tmp_path, fake, ScriptedModel.saying()) as server:
        await server.harness.resources.accounts.add("ann@example.com", PASSWORD, "admin")
        server.harness.resources.authenticator.is_login_required = True
        assert "/connect CODE" in (await server.ask("Hi"))[0]


@each_app
async def test_a_disabled_account_has_no_rights_in_chats(tmp_path: Path, create_fake: CreateFake) -> None:
    async with create_fake() as fake, connect(tmp_path, fake, ScriptedModel.saying("A")) as server:
        accounts = server.harness.resources.accounts
        await accounts.add("ann@example.com", PASSWORD, "admin")
        bob = await accounts.add("bob@example.com", PASSWORD, "user")
        code = await server.create_code(Principal(bob.user_id))
        await server.ask(f"/connect {code}")
        assert (await server.ask("Hi"))[-1] == "A"
        await accounts.change(bob.user_id, is_active=False)
        assert "/connect CODE" in (await server.ask("Hi"))[-1]


@each_app
@pytest.mark.parametrize("chat", [STRANGER, GROUP])
async def test_unknown_people_change_nothing(tmp_path: Path, create_fake: CreateFake, chat: int) -> None:
    """Messages, commands and invented buttons of people who are not known, while a run of a known one waits."""
    async with create_fake() as fake, connect(tmp_path, fake, ScriptedModel.saying("Answer")) as server:
        await server.ask("Hi")
        for text in ATTACKS:
            fake.write(text, sender=STRANGER, chat=chat)
        for data in PRESSES:
            fake.press(fake.in_chat(OWNER)[0].message_id, data, sender=STRANGER, chat=chat)
        if isinstance(fake, FakeTelegram):
            fake.stop_draft(STRANGER, 1)
        await settle(server)
        assert server.texts() == ["Answer"]
        assert all("private chat" in text or "CODE" in text or "wrong" in text for text in server.texts(chat))
        assert {text for _, text in fake.pressed} <= {"Only the person who asked can press this."}
        people = await server.harness.core.database.read(partial(rows.list_people, owner=LOCAL_USER.user_id))
        runs = await server.harness.threads.search(LOCAL_USER, 10, 0)
        assert people == [] and len(runs) == 1
