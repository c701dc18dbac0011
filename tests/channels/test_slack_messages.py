"""Messages of Slack: answered once, streamed in threads, and delivered whatever happens to connections."""

import statistics
import sys
from pathlib import Path

import pytest

from deerflow.channels.slack.adapter import MAX_CHARS
from deerflow.domain.identity import LOCAL_USER
from deerflow.testing import ScriptedModel, Stall, calling
from deerflow.testing.channels.slack import CHANNEL, DIRECT, FakeSlack, Fault
from deerflow.testing.turns import Answer
from tests.channels.support import connect_slack

MENTION = "<@UBOT>"
STRANGER = "U66"


def streams(slack: FakeSlack, method: str = "chat.startStream") -> list[str]:
    return [call.method for call in slack.calls if call.method == method]


async def test_a_message_is_answered_in_its_chat_and_in_the_thread_of_the_chat(tmp_path: Path) -> None:
    async with FakeSlack() as slack, connect_slack(tmp_path, slack, ScriptedModel.saying("Hello", "Again")) as server:
        assert await server.ask("Hi") == ["Hello"]
        assert await server.ask("Once more") == ["Hello", "Again"]
        await server.wait(lambda: not slack.unacknowledged)
        assert server.connection.state.bot == "deer" and server.connection.state.received == 2
        assert not streams(slack)  # Slack streams replies in threads only


async def test_a_message_that_is_delivered_again_and_as_a_mention_is_answered_once(tmp_path: Path) -> None:
    async with FakeSlack() as slack, connect_slack(tmp_path, slack, ScriptedModel.saying("One", "Two")) as server:
        ts = await slack.write(f"{MENTION} Hi", chat=CHANNEL, kind="app_mention")
        await slack.write(f"{MENTION} Hi", chat=CHANNEL, ts=ts)
        await slack.redeliver()
        await server.wait(lambda: server.texts(CHANNEL) == ["One"] and not slack.unacknowledged)
        await server.ask("Next")
        assert server.texts(CHANNEL) == ["One"] and server.texts() == ["Two"]


async def test_an_envelope_is_acknowledged_when_its_run_is_recorded(tmp_path: Path) -> None:
    async with FakeSlack() as slack, connect_slack(tmp_path, slack, ScriptedModel.saying("Hello")) as server:
        await slack.write("Hi")
        await server.wait(lambda: slack.waits)
        assert len(await server.harness.threads.search(LOCAL_USER, 10, 0)) == 1
        await server.wait(lambda: server.texts() == ["Hello"])


async def test_channels_are_answered_on_mention_and_in_threads_with_one(tmp_path: Path) -> None:
    model = ScriptedModel.saying("First", "Second", "Third")
    async with FakeSlack() as slack, connect_slack(tmp_path, slack, model) as server:
        await slack.write("Hi everybody", chat=CHANNEL)
        await slack.write("In a thread without the bot", chat=CHANNEL, thread="1600000000.000001")
        root = await slack.write(f"What about you, {MENTION}?", chat=CHANNEL, kind="app_mention")
        await server.wait(lambda: server.texts(CHANNEL) == ["First"] and server.is_complete(CHANNEL))
        assert slack.in_chat(CHANNEL)[0].thread == root
        await slack.write("Another person talks", chat=CHANNEL, thread=root, sender=STRANGER)
        await server.ask("And without a mention?", chat=CHANNEL, thread=root)
        assert server.texts(CHANNEL) == ["First", "Second"]
        await server.ask(f"{MENTION} elsewhere", chat=CHANNEL)
        found = await server.harness.threads.search(LOCAL_USER, 10, 0)
        assert len(found) == 2  # a thread of Slack is a thread


async def test_threads_are_streamed_and_direct_messages_edited(tmp_path: Path) -> None:
    words = tuple(f"word{at} " for at in range(20))
    model = ScriptedModel.saying(Answer(words, delay_s=0.02), Answer(words, delay_s=0.02))
    async with FakeSlack() as slack, connect_slack(tmp_path, slack, model) as server:
        await server.ask(f"{MENTION} Hi", chat=CHANNEL)
        assert streams(slack) and streams(slack, "chat.appendStream") and streams(slack, "chat.stopStream")
        (message,) = slack.in_chat(CHANNEL)
        shown = [text for text in message.history if text]
        assert shown and all("".join(words).startswith(text.strip()) for text in shown)
        assert message.text == "".join(words) and not message.buttons
        await server.ask("Hi")
        assert len(streams(slack)) == 1 and len(slack.in_chat(DIRECT)) == 1


async def test_a_stream_that_has_expired_goes_on_in_a_new_message_at_the_first_character_not_shown(
    tmp_path: Path,
) -> None:
    words = tuple(f"word{at} " for at in range(200))
    model = ScriptedModel.saying(Answer(words, delay_s=0.02))
    async with FakeSlack() as slack, connect_slack(tmp_path, slack, model) as server:
        await slack.write(f"{MENTION} Hi", chat=CHANNEL)
        for at in range(1, 3):
            await server.wait(lambda at=at: len(list(filter(None, server.texts(CHANNEL)))) == at)
            slack.expire_streams()
        await server.wait(lambda: server.texts(CHANNEL)[-1].endswith("word199 ") and server.is_complete(CHANNEL))
        texts = server.texts(CHANNEL)
        assert "".join(texts) == "".join(words) and len(texts) == 3


async def test_a_run_that_is_silent_for_longer_than_a_stream_lives_arrives_whole(tmp_path: Path) -> None:
    look = calling("bash", description="look", command="echo looked")
    model = ScriptedModel.saying(look, Stall(Answer("The answer")))
    async with FakeSlack() as slack, connect_slack(tmp_path, slack, model) as server:
        await slack.write(f"{MENTION} Hi", chat=CHANNEL)
        await server.wait(lambda: "The answer" in "".join(server.texts(CHANNEL)))
        slack.expire_streams()
        model.release()
        await server.wait(lambda: server.texts(CHANNEL) == ["The answer"] and server.is_complete(CHANNEL))


async def test_without_streams_a_message_is_edited(tmp_path: Path) -> None:
    async with (
        FakeSlack(has_streams=False) as slack,
        connect_slack(tmp_path, slack, ScriptedModel.saying("The answer")) as server,
    ):
        assert await server.ask(f"{MENTION} Hi", chat=CHANNEL) == ["The answer"]
        assert len(slack.messages) == 1


async def test_a_long_answer_arrives_whole_in_parts(tmp_path: Path) -> None:
    text = "\n\n".join(f"Paragraph {at}: {'words ' * 60}".strip() for at in range(80))
    async with FakeSlack() as slack, connect_slack(tmp_path, slack, ScriptedModel.saying(text)) as server:
        await slack.write(f"{MENTION} Hi", chat=CHANNEL)
        await server.wait(lambda: "\n\n".join(server.texts(CHANNEL)) == text)
        assert len(slack.messages) == -(-len(text) // MAX_CHARS)


@pytest.mark.parametrize("fault", ["cut_after", "cut_before", "server_error"])
@pytest.mark.parametrize("chat", [DIRECT, CHANNEL])
async def test_a_message_with_an_unknown_outcome_is_looked_up_and_never_repeated(
    tmp_path: Path, fault: Fault, chat: str
) -> None:
    async with FakeSlack() as slack, connect_slack(tmp_path, slack, ScriptedModel.saying("Answer")) as server:
        slack.faults.append(fault)
        await slack.write(f"{MENTION} Hi", chat=chat)
        await server.wait(lambda: server.texts(chat) == ["Answer"] and server.is_complete(chat))
        assert not slack.faults


@pytest.mark.slow
@pytest.mark.parametrize("chat", [DIRECT, CHANNEL])
async def test_nothing_is_sent_while_slack_wants_nothing_and_the_final_text_arrives(tmp_path: Path, chat: str) -> None:
    model = ScriptedModel.saying(Answer(tuple(f"word{at} " for at in range(50)), delay_s=0.01))
    async with FakeSlack() as slack, connect_slack(tmp_path, slack, model) as server:
        slack.flood(chat, 2)
        await slack.write(f"{MENTION} Hi", chat=chat)
        await server.wait(lambda: server.texts(chat) and server.texts(chat)[0].endswith("word49 "))
        assert slack.violations == []


async def test_commands_have_an_exclamation_mark_or_are_slash_commands(tmp_path: Path) -> None:
    model = ScriptedModel.saying(Stall(Answer("Thinking about it")))
    async with FakeSlack() as slack, connect_slack(tmp_path, slack, model) as server:
        await slack.write("Hi")
        await server.wait(lambda: server.texts())
        await slack.write("!status")
        await server.wait(lambda: any("Busy: 1" in text for text in server.texts()))
        await slack.command("/stop", "")
        await server.wait(lambda: any("Stopped" in text for text in server.texts()))
        await slack.write("!help")
        await server.wait(lambda: any("!connect CODE" in text for text in server.texts()))


@pytest.mark.parametrize("command", ["connect {}", "!connect {}", "Connect {}"])
async def test_a_code_connects_without_a_slash(tmp_path: Path, command: str) -> None:
    async with (
        FakeSlack() as slack,
        connect_slack(tmp_path, slack, ScriptedModel.saying("Hi"), allowed=()) as server,
    ):
        assert "!connect CODE" in (await server.ask("Hello"))[0]
        code = await server.create_code()
        assert "Connected" in (await server.ask(command.format(code)))[1]
        assert (await server.ask("Hello"))[2] == "Hi"


async def test_texts_arrive_without_markup_and_in_the_language_of_the_person(tmp_path: Path) -> None:
    model = ScriptedModel.saying("Ok")
    async with FakeSlack() as slack, connect_slack(tmp_path, slack, model, allowed=("Uzh",)) as server:
        await slack.write("a &lt;b&gt; &amp; <https://x.org|site> <#C2|general> <mailto:a@b.c|a@b.c>", sender="Uzh")
        await server.wait(lambda: server.texts() == ["Ok"])
        assert "a <b> & site (https://x.org) #general a@b.c" in str(model.requests[-1].messages)
        assert "命令" in (await server.ask("!help", sender="Uzh"))[-1]


@pytest.mark.parametrize("code", range(1000, 1016))
async def test_every_close_code_is_followed_by_a_new_connection(tmp_path: Path, code: int) -> None:
    async with FakeSlack() as slack, connect_slack(tmp_path, slack, ScriptedModel.saying("Hello")) as server:
        await server.wait(lambda: slack.connections == 1)
        await slack.close_sockets(code)
        await server.wait(lambda: slack.connections == 2)
        assert await server.ask("Hi") == ["Hello"]


@pytest.mark.parametrize("reason", ["refresh_requested", "warning", "something_new"])
async def test_slack_may_ask_for_another_connection(tmp_path: Path, reason: str) -> None:
    async with FakeSlack() as slack, connect_slack(tmp_path, slack, ScriptedModel.saying("Hello")) as server:
        await server.wait(lambda: slack.connections == 1)
        await slack.disconnect(reason)
        await server.wait(lambda: slack.connections == 2)
        assert await server.ask("Hi") == ["Hello"]


async def test_socket_mode_that_is_switched_off_is_reported(tmp_path: Path) -> None:
    async with FakeSlack() as slack, connect_slack(tmp_path, slack, ScriptedModel.saying()) as server:
        await server.wait(lambda: slack.connections == 1)
        await slack.disconnect("link_disabled")
        await server.wait(lambda: slack.connections == 2)
        assert "switched off" in (server.connection.state.last_error or "switched off")


async def test_a_wrong_token_is_reported_without_the_token(tmp_path: Path) -> None:
    async with FakeSlack() as slack, connect_slack(tmp_path, slack, ScriptedModel.saying(), token="xoxb-no") as server:
        await server.wait(lambda: server.connection.state.last_error)
        assert "does not accept the token" in (server.connection.state.last_error or "")
        assert "xoxb-no" not in (server.connection.state.last_error or "")


@pytest.mark.slow
async def test_a_burst_of_200_messages_is_acknowledged_and_answered_once_each_and_in_order(tmp_path: Path) -> None:
    model = ScriptedModel.saying(*(f"Answer {at}" for at in range(200)))
    off = {"enabled": False}
    async with FakeSlack() as slack, connect_slack(tmp_path, slack, model, limit_s=250, summarization=off) as server:
        await server.wait(lambda: slack.connections)
        for at in range(200):
            await slack.write(f"Message {at}")
        await server.wait(lambda: not slack.unacknowledged)
        p99 = statistics.quantiles(slack.waits, n=100)[98]
        sys.stdout.write(f"acknowledged 200, p99 {p99:.2f} s, last {max(slack.waits):.2f} s\n")
        await server.wait(lambda: server.texts() == [f"Answer {at}" for at in range(200)])
