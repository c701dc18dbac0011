"""The official SDK of Feishu: it works with the fake, and its frames are those of our client."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from deerflow.channels.adapter import ChannelUnreachable
from deerflow.channels.feishu.frames import FeishuFrame, decode_frame, encode_frame
from deerflow.testing.channels.feishu import APP_ID, APP_SECRET, FakeFeishu
from tests.support import dependencies, install_program

LIMIT_S = 120
CLIENT = Path(__file__).with_name("lark_client.py")


def find_python() -> Path:
    """Return the Python of the environment with the SDK."""
    return install_program(dependencies()["pypi"]["feishu_sdk"], "python")


@asynccontextmanager
async def running(feishu: FakeFeishu) -> AsyncIterator[None]:
    """Run a bot that is made with the SDK."""
    python = await asyncio.to_thread(find_python)
    command = [str(python), str(CLIENT), feishu.base_url, APP_ID, APP_SECRET]
    process = await asyncio.create_subprocess_exec(*command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        async with asyncio.timeout(LIMIT_S):
            await feishu.wait_until(lambda: feishu.open)
            yield
    finally:
        process.kill()
        await process.wait()


@pytest.mark.slow
@pytest.mark.external
async def test_the_sdk_works_with_the_fake() -> None:
    async with FakeFeishu(split=3) as feishu, running(feishu):
        feishu.write("stream")
        await feishu.wait_until(lambda: len(feishu.messages) == 2 and feishu.unconfirmed == 0)
        (card,) = feishu.cards.values()
        assert not card.is_streaming and card.sequence == 4
        assert card.message is not None and card.message.text == "word word word "
        feishu.write("fail")
        await feishu.wait_until(lambda: feishu.failed == 1)
        feishu.redeliver()
        await feishu.wait_until(lambda: feishu.unconfirmed == 0)
        assert [each.text for each in feishu.messages.values()][-1] == "Echo fail"
        feishu.press(card.message.message_id, "7:0")
        await feishu.wait_until(lambda: feishu.pressed)
        assert feishu.pressed[0][1] == "Pressed 7:0"
        await feishu.disconnect(1001)
        await feishu.wait_until(lambda: feishu.connections == 2 and feishu.open)
        feishu.write("Hi")
        await feishu.wait_until(lambda: feishu.unconfirmed == 0)


def random_frames(count: int) -> list[FeishuFrame]:
    """Return frames with numbers and texts of every length."""
    random = Random(1)

    def text() -> str:
        return "".join(chr(random.choice((65, 0x4E2D, 0x1F98C, 0))) for _ in range(random.randrange(200)))

    return [
        FeishuFrame(
            random.randrange(2),
            {text(): text() for _ in range(random.randrange(6))},
            random.randbytes(random.choice((0, 1, 127, 128, 5000))),
            random.randrange(-(2**31), 2**31) % 2**64,
            random.randrange(2 ** random.randrange(1, 64)),
            random.randrange(2 ** random.randrange(1, 64)),
        )
        for _ in range(count)
    ]


@pytest.mark.slow
@pytest.mark.external
def test_five_thousand_frames_are_the_same_for_the_sdk() -> None:
    frames = random_frames(5000)
    given = "\n".join(encode_frame(frame).hex() for frame in frames)
    command = [str(find_python()), str(CLIENT), "frames", APP_ID, APP_SECRET]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert [decode_frame(bytes.fromhex(line)) for line in done.stdout.splitlines()] == frames


def test_frames_that_are_cut_off_or_invented_end_the_connection_at_most() -> None:
    random = Random(2)
    whole = encode_frame(random_frames(20)[-1])
    for _ in range(2000):
        broken = bytearray(whole[: random.randrange(len(whole) + 1)])
        for _ in range(random.randrange(4) if broken else 0):
            broken[random.randrange(len(broken))] = random.randrange(256)
        try:
            decode_frame(bytes(broken))
        except ChannelUnreachable:
            continue
