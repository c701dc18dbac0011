"""Messages of every chat app: answered once, in their order, and never while the platform wants none."""

from pathlib import Path

import pytest

from deerflow.testing import ScriptedModel
from deerflow.testing.turns import Answer
from tests.channels.support import OWNER, CreateFake, connect, each_app


@each_app
async def test_a_message_is_answered_in_its_chat_and_in_the_thread_of_the_chat(
    tmp_path: Path, create_fake: CreateFake
) -> None:
    async with (
        create_fake() as fake,
        connect(tmp_path, fake, ScriptedModel.saying("Hello", "Again")) as server,
    ):
        assert await server.ask("Hi") == ["Hello"]
        assert await server.ask("Once more") == ["Hello", "Again"]
        await server.wait(lambda: fake.unconfirmed == 0)
        assert server.connection.state.bot == "deer_bot" and server.connection.state.received == 2


@each_app
async def test_an_update_that_is_given_again_is_answered_once(tmp_path: Path, create_fake: CreateFake) -> None:
    async with create_fake() as fake, connect(tmp_path, fake, ScriptedModel.saying("One", "Two")) as server:
        fake.write("Hi", update_id=5000)
        await server.wait(lambda: server.texts() == ["One"] and fake.unconfirmed == 0)
        fake.write("Hi", update_id=5000)  # an offset that was not confirmed
        fake.write("Next", update_id=5001)
        await server.wait(lambda: len(server.texts()) == 2)
        assert server.texts() == ["One", "Two"]


@each_app
@pytest.mark.slow
async def test_nothing_is_sent_while_the_platform_wants_nothing_and_the_final_text_arrives(
    tmp_path: Path, create_fake: CreateFake
) -> None:
    model = ScriptedModel.saying(Answer(tuple(f"word{at} " for at in range(50)), delay_s=0.01), "Other")
    async with create_fake() as fake, connect(tmp_path, fake, model) as server:
        fake.flood(OWNER, 2)
        fake.write("Hi")
        await server.wait(lambda: server.texts())
        assert fake.violations == [] and server.texts()[0].rstrip().endswith("word49")


@each_app
async def test_new_and_model_change_the_chat(tmp_path: Path, create_fake: CreateFake) -> None:
    async with create_fake() as fake, connect(tmp_path, fake, ScriptedModel.saying("A", "B")) as server:
        await server.ask("One")
        assert "new thread" in (await server.ask("/new"))[-1]
        await server.ask("Two")
        threads = [run.thread_id for run in server.harness.runs.active_runs()]
        assert threads == []
        assert "no model nonsense" in (await server.ask("/model nonsense"))[-1]


@each_app
@pytest.mark.slow
async def test_a_burst_of_200_messages_is_answered_once_each_and_in_order(
    tmp_path: Path, create_fake: CreateFake
) -> None:
    model = ScriptedModel.saying(*(f"Answer {at}" for at in range(200)))
    off = {"enabled": False}
    async with (
        create_fake() as fake,
        connect(tmp_path, fake, model, limit_s=250, summarization=off) as server,
    ):
        for at in range(200):
            fake.write(f"Message {at}")
        await server.wait(lambda: len(server.texts()) == 200)
        assert server.texts() == [f"Answer {at}" for at in range(200)]
