"""Everything about uploads: taken in, listed, removed, and converted in the background."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from deerflow.config.uploads import UploadsConfig
from deerflow.domain.errors import DeerFlowError, InvalidRequest, TooLarge
from deerflow.domain.threads import ThreadRecord
from deerflow.domain.uploads import Received, UploadedFile
from deerflow.sandbox.chores import Chores
from deerflow.sandbox.places import file_owner
from deerflow.uploads.conversion import Converter, Unconverted, is_convertible
from deerflow.uploads.desk import Desk
from deerflow.uploads.folder import staged_name
from deerflow.uploads.reception import Reception, to_the_end
from deerflow.uploads.records import Record

logger = logging.getLogger(__name__)

Key = tuple[str, str, str]
"""Whose thread, which thread, which file."""


class Uploads:
    """The uploads of all threads. A conversion goes on when nobody waits for it any more."""

    def __init__(self, home: Path, settings: Callable[[], UploadsConfig], chores: Chores) -> None:
        """`settings` is asked anew each time."""
        self.settings = settings
        self._home = home
        self._converter = Converter(chores)
        self._under_way: dict[Key, asyncio.Task[None]] = {}

    @asynccontextmanager
    async def receiving(self, thread: ThreadRecord) -> AsyncIterator[Reception]:
        """What takes in the files of one upload; what is not kept leaves nothing behind."""
        desk = self._desk(thread.owner, thread.thread_id)
        async with Reception(desk.place, file_owner(), self.settings(), desk.snapshots.users_change) as reception:
            yield reception

    async def keep(self, thread: ThreadRecord, reception: Reception) -> Received:
        """Keep what was taken in, and begin to convert it; short conversions are waited for.

        Raises:
            TooLarge: Every file was too large.
            InvalidRequest: There is no file.
        """
        arrived = await reception.keep()
        if not arrived and reception.skipped:
            raise TooLarge("; ".join(f"{each.filename!r}: {each.reason}" for each in reception.skipped))
        if not arrived:
            raise InvalidRequest("there is no file; send at least one, as multipart/form-data in the field 'files'")
        desk, names = self._desk(thread.owner, thread.thread_id), [each.name for each in arrived]
        await to_the_end(desk.remember, [Record(each.name, each.original) for each in arrived])
        self._begin(desk, names)
        await self._await(desk, names, self.settings().conversion.answer_seconds)
        found = {file.filename: file for file in await self.list(thread.owner, thread.thread_id)}
        return Received([found[name] for name in names if name in found], reception.skipped)

    async def list(self, owner: str, thread_id: str) -> Sequence[UploadedFile]:
        """The uploads of a thread, newest first."""
        desk = self._desk(owner, thread_id)
        under_way = [name for *whose, name in self._under_way if whose == [owner, thread_id]]
        look = partial(desk.look, under_way, converts=self.settings().conversion.enabled)
        return await asyncio.to_thread(look)

    async def delete(self, owner: str, thread_id: str, filename: str) -> None:
        """Remove an upload and what was made from it.

        Raises:
            NotFound: There is no such upload.
        """
        await self._stop([(owner, thread_id, filename)])
        await to_the_end(self._desk(owner, thread_id).remove, filename)

    async def settle(self, owner: str, thread_id: str, filenames: Sequence[str]) -> Mapping[str, UploadedFile]:
        """Some uploads, after a bounded wait for their conversions, which are tried again where that may help."""
        desk = self._desk(owner, thread_id)
        waiting = [file.filename for file in await self.list(owner, thread_id) if file.conversion == "pending"]
        self._begin(desk, [name for name in waiting if name in filenames])
        await self._await(desk, filenames, self.settings().conversion.run_seconds)
        return {file.filename: file for file in await self.list(owner, thread_id) if file.filename in filenames}

    async def copy(self, owner: str, thread_id: str, copy_id: str) -> None:
        """Have a copy of a thread know of its uploads what the thread knows."""
        await asyncio.to_thread(self._desk(owner, thread_id).copy_records, self._desk(owner, copy_id))

    async def forget(self, owner: str, thread_id: str) -> None:
        """Stop what is done for a thread that is about to go."""
        await self._stop([key for key in self._under_way if key[:2] == (owner, thread_id)])

    async def aclose(self) -> None:
        """Stop what is under way; it is taken up again when a run needs it."""
        await self._stop(list(self._under_way))

    def _desk(self, owner: str, thread_id: str) -> Desk:
        return Desk.of(self._home, owner, thread_id)

    def _begin(self, desk: Desk, names: Sequence[str]) -> None:
        if not self.settings().conversion.enabled:
            return
        for name in names:
            key = (desk.owner, desk.thread_id, name)
            if is_convertible(name) and key not in self._under_way:
                self._under_way[key] = asyncio.create_task(self._convert(desk, name))
                self._under_way[key].add_done_callback(partial(self._end, key))

    def _end(self, key: Key, task: "asyncio.Task[None]") -> None:
        if self._under_way.get(key) is task:
            del self._under_way[key]

    async def _await(self, desk: Desk, names: Sequence[str], limit_s: float) -> None:
        tasks = [self._under_way.get((desk.owner, desk.thread_id, name)) for name in names]
        if waiting := {task for task in tasks if task is not None}:
            await asyncio.wait(waiting, timeout=limit_s)

    async def _stop(self, keys: Sequence[Key]) -> None:
        tasks = {task for key in keys if (task := self._under_way.get(key))}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _convert(self, desk: Desk, filename: str) -> None:
        staged = staged_name()
        try:
            settings = self.settings().conversion
            outcome = await self._converter.convert(desk.thread_id, desk.owner, filename, staged, settings)
            if isinstance(outcome, Unconverted):
                logger.info("an upload of thread %s was not converted: %s", desk.thread_id, outcome.reason)
            await to_the_end(desk.take_in, filename, staged, outcome)
        except (OSError, DeerFlowError) as problem:
            logger.warning("what came of converting an upload of thread %s is lost: %s", desk.thread_id, problem)
        finally:
            await to_the_end(desk.discard, staged)


@dataclass(frozen=True, slots=True)
class UploadsOfThread:
    """The uploads of one thread, for its runs."""

    uploads: Uploads
    owner: str
    thread_id: str

    async def list(self) -> Sequence[UploadedFile]:
        return await self.uploads.list(self.owner, self.thread_id)

    async def settle(self, filenames: Sequence[str]) -> Mapping[str, UploadedFile]:
        return await self.uploads.settle(self.owner, self.thread_id, filenames)
