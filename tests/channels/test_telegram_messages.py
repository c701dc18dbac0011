"""Messages of Telegram: answered once, streamed, split and delivered whatever happens to connections."""

import asyncio
from pathlib import Path

import pytest

from deerflow.channels.adapter import ChannelError
from deerflow.channels.telegram.api import TelegramApi
from deerflow.testing import ScriptedModel, Stall
from deerflow.testing.channels.server import Fault
from deerflow.testing.channels.telegram import TOKEN, FakeTelegram
from deerflow.testing.turns import Answer
from tests.channels.support import OWNER, connect

GROUP = -100


async def test_private_chats_show_a_draft_and_groups_an_edited_message(tmp_path: Path) -> None:
    words = tuple(f"word{at} " for at in range(20))
    model = ScriptedModel.saying(Answer(words, delay_s=0.02), Answer(words, delay_s=0.02))
    async with FakeTelegram() as telegram, connect(tmp_path, telegram, model) as server:
        await server.ask("Hi")
        assert telegram.drafts[OWNER] and all("".join(words).startswith(text) for text in telegram.drafts[OWNER][-1:])
        telegram.write("@deer_bot Hi", chat=GROUP)
        await server.wait(lambda: server.texts(GROUP) and not telegram.in_chat(GROUP)[0].buttons)
        (message,) = telegram.in_chat(GROUP)
        assert message.history and message.text == "".join(words).strip()


async def test_a_refused_draft_falls_back_to_an_edited_message(tmp_path: Path) -> None:
    async with (
        FakeTelegram(has_drafts=False) as telegram,
        connect(tmp_path, telegram, ScriptedModel.saying("The answer")) as server,
    ):
        telegram.write("Hi")
        await server.wait(lambda: server.texts() == ["The answer"])
        assert len(telegram.messages) == 1


async def test_groups_are_answered_on_mention_only(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram, connect(tmp_path, telegram, ScriptedModel.saying("Yes")) as server:
        telegram.write("Hi everybody", chat=GROUP)
        telegram.write("What about you, @deer_bot?", chat=GROUP)
        telegram.write("@Deer_Bot are you there", chat=GROUP)
        await server.wait(lambda: server.texts(GROUP) == ["Yes"])


async def test_a_long_answer_arrives_whole_in_parts_of_4096_characters(tmp_path: Path) -> None:
    text = "\n\n".join(f"Paragraph {at}: {'words ' * 60}".strip() for at in range(30))
    async with FakeTelegram() as telegram, connect(tmp_path, telegram, ScriptedModel.saying(text)) as server:
        telegram.write("Hi")
        await server.wait(lambda: "\n\n".join(server.texts()) == text)
        assert len(telegram.messages) == 3


@pytest.mark.parametrize("fault", ["cut_after", "server_error"])
async def test_a_message_with_an_unknown_outcome_is_sent_again_and_says_so(tmp_path: Path, fault: Fault) -> None:
    async with FakeTelegram() as telegram, connect(tmp_path, telegram, ScriptedModel.saying("Answer")) as server:
        telegram.faults.append(fault)
        telegram.write("Hi")
        await server.wait(lambda: server.texts() and server.texts()[-1].startswith("↻ Sent again"))
        assert [text for text in server.texts() if not text.startswith("↻")] in ([], ["Answer"])
        assert server.texts()[-1].endswith("Answer")


async def test_commands_are_answered_while_a_run_goes_on_and_stop_ends_it(tmp_path: Path) -> None:
    model = ScriptedModel.saying(Stall(Answer("Thinking about it")))
    async with FakeTelegram() as telegram, connect(tmp_path, telegram, model) as server:
        telegram.write("Hi")
        await server.wait(lambda: telegram.drafts.get(OWNER))
        assert "Busy: 1" in (await server.ask("/status"))[-1]
        telegram.write("/stop")
        await server.wait(lambda: len(server.texts()) == 3)
        assert any("Stopped" in text for text in server.texts()[1:])


async def test_a_draft_is_stopped_with_its_button(tmp_path: Path) -> None:
    model = ScriptedModel.saying(Stall(Answer("Thinking about it")))
    async with FakeTelegram() as telegram, connect(tmp_path, telegram, model) as server:
        telegram.write("Hi")
        await server.wait(lambda: telegram.drafts.get(OWNER))
        draft = next(call.parameters["draft_id"] for call in telegram.calls if call.method == "sendMessageDraft")
        telegram.stop_draft(OWNER, draft)
        await server.wait(lambda: server.texts() and server.texts()[-1].endswith("Stopped."))


async def test_a_second_poller_is_reported_and_the_connection_comes_back(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram, connect(tmp_path, telegram, ScriptedModel.saying("Hello")) as server:
        await server.wait(lambda: telegram.polls)
        other = asyncio.create_task(poll_once(telegram))
        await server.wait(lambda: server.connection.state.last_error and telegram.polls >= 3)
        await other
        assert await server.ask("Hi") == ["Hello"]


async def poll_once(telegram: FakeTelegram) -> None:
    api = TelegramApi(TOKEN, telegram.base_url)
    try:
        await api.call("getUpdates", 5, timeout=1)
    except ChannelError:
        pass
    finally:
        await api.aclose()


async def test_a_wrong_token_is_reported_without_the_token(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram, connect(tmp_path, telegram, ScriptedModel.saying(), token="1:no") as server:
        await server.wait(lambda: server.connection.state.last_error)
        assert "does not accept the token" in server.connection.state.last_error
        assert "1:no" not in server.connection.state.last_error


async def test_replies_are_in_the_language_of_the_person(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram, connect(tmp_path, telegram, ScriptedModel.saying()) as server:
        assert "命令" in (await server.ask("/help", language="zh-hans"))[-1]
