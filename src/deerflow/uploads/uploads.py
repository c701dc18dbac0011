"""Upload service: receive, list and delete uploads, and convert them in the background."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic_core import to_jsonable_python

from deerflow.config.sections.base import Settings
from deerflow.config.sections.storage import UploadsConfig
from deerflow.domain.errors import DeerFlowError, InvalidRequest, TooLarge
from deerflow.domain.files import UploadedFile, UploadResult
from deerflow.domain.threads import ThreadRecord
from deerflow.sandbox.files.mounts import file_owner
from deerflow.sandbox.jobs.jobs import SandboxJobs
from deerflow.sandbox.local.usage import DiskQuota
from deerflow.uploads.conversion import ConversionFailure, DocumentConverter, is_convertible
from deerflow.uploads.receiver import UploadReceiver, create_staged_name, run_to_completion
from deerflow.uploads.store import UploadRecord, UploadStore

logger = logging.getLogger(__name__)

ConversionKey = tuple[str, str, str]
"""Owner, thread id and file name."""


class UploadService:
    """Uploads of all threads. Conversions continue in the background."""

    def __init__(self, home: Path, settings: Settings[UploadsConfig], jobs: SandboxJobs, disk_quota: DiskQuota) -> None:
        """Create the service. `settings` is called on each use."""
        self.settings = settings
        self._disk_quota = disk_quota
        self._home = home
        self._converter = DocumentConverter(jobs)
        self._tasks: dict[ConversionKey, asyncio.Task[None]] = {}

    @asynccontextmanager
    async def receive(self, thread: ThreadRecord) -> AsyncIterator[UploadReceiver]:
        """Provide a receiver for one upload. Unpublished files are removed."""
        store = self._open_store(thread.owner, thread.thread_id)
        async with (
            self._disk_quota.open(thread.owner, thread.thread_id) as reservation,
            UploadReceiver(
                store.mount, file_owner(), self.settings.current, reservation, store.snapshots.adopt_user_changes
            ) as receiver,
        ):
            yield receiver

    async def complete(self, thread: ThreadRecord, receiver: UploadReceiver) -> UploadResult:
        """Publish the received files and start their conversion. Waits a short time for the conversions.

        Raises:
            TooLarge: All files were too large.
            InvalidRequest: There is no file.
        """
        received_files = await receiver.publish()
        if not received_files and receiver.skipped:
            raise TooLarge("; ".join(f"{each.filename!r}: {each.reason}" for each in receiver.skipped))
        if not received_files:
            raise InvalidRequest("no file received; send at least one, as multipart/form-data in the field 'files'")
        store, names = self._open_store(thread.owner, thread.thread_id), [each.name for each in received_files]
        await run_to_completion(store.add_records, [UploadRecord(each.name, each.original) for each in received_files])
        self._start_conversions(store, names)
        await self._wait(store, names, self.settings.current.conversion.answer_seconds)
        found = {file.filename: file for file in await self.list(thread.owner, thread.thread_id)}
        return UploadResult([found[name] for name in names if name in found], receiver.skipped)

    async def list(self, owner: str, thread_id: str) -> Sequence[UploadedFile]:
        """Return the uploads of a thread, newest first."""
        store = self._open_store(owner, thread_id)
        converting = [name for *owner_key, name in self._tasks if owner_key == [owner, thread_id]]
        list_files = partial(store.list_files, converting, conversion_enabled=self.settings.current.conversion.enabled)
        return await asyncio.to_thread(list_files)

    async def delete(self, owner: str, thread_id: str, filename: str) -> None:
        """Delete an upload and its Markdown.

        Raises:
            NotFound: There is no such upload.
        """
        await self._cancel([(owner, thread_id, filename)])
        await run_to_completion(self._open_store(owner, thread_id).remove, filename)

    async def wait_for_conversions(
        self, owner: str, thread_id: str, filenames: Sequence[str]
    ) -> Mapping[str, UploadedFile]:
        """Return some uploads after a bounded wait for their conversions. Pending conversions are retried."""
        store = self._open_store(owner, thread_id)
        pending = [file.filename for file in await self.list(owner, thread_id) if file.conversion == "pending"]
        self._start_conversions(store, [name for name in pending if name in filenames])
        await self._wait(store, filenames, self.settings.current.conversion.run_seconds)
        return {file.filename: file for file in await self.list(owner, thread_id) if file.filename in filenames}

    async def copy(self, owner: str, thread_id: str, copy_id: str) -> None:
        """Copy the upload records of a thread to its copy."""
        await asyncio.to_thread(self._open_store(owner, thread_id).copy_records, self._open_store(owner, copy_id))

    async def cancel_conversions(self, owner: str, thread_id: str) -> None:
        """Cancel the conversions of a thread that is about to be deleted."""
        await self._cancel([key for key in self._tasks if key[:2] == (owner, thread_id)])

    async def aclose(self) -> None:
        """Cancel all conversions. They are retried when a run needs them."""
        await self._cancel(list(self._tasks))

    def _open_store(self, owner: str, thread_id: str) -> UploadStore:
        return UploadStore.open(self._home, owner, thread_id)

    def _start_conversions(self, store: UploadStore, names: Sequence[str]) -> None:
        if not self.settings.current.conversion.enabled:
            return
        for name in names:
            key = (store.owner, store.thread_id, name)
            if is_convertible(name) and key not in self._tasks:
                self._tasks[key] = asyncio.create_task(self._convert(store, name))
                self._tasks[key].add_done_callback(partial(self._remove_task, key))

    def _remove_task(self, key: ConversionKey, task: "asyncio.Task[None]") -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]

    async def _wait(self, store: UploadStore, names: Sequence[str], timeout_s: float) -> None:
        tasks = [self._tasks.get((store.owner, store.thread_id, name)) for name in names]
        if pending := {task for task in tasks if task is not None}:
            await asyncio.wait(pending, timeout=timeout_s)

    async def _cancel(self, keys: Sequence[ConversionKey]) -> None:
        tasks = {task for key in keys if (task := self._tasks.get(key))}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _convert(self, store: UploadStore, filename: str) -> None:
        staged = create_staged_name()
        try:
            settings = self.settings.current.conversion
            outcome = await self._converter.convert(store.thread_id, store.owner, filename, staged, settings)
            if isinstance(outcome, ConversionFailure):
                logger.info("upload not converted in thread %s: %s", store.thread_id, outcome.reason)
            await run_to_completion(store.save_conversion, filename, staged, outcome)
        except (OSError, DeerFlowError) as error:
            logger.warning("could not save the conversion of an upload in thread %s: %s", store.thread_id, error)
        finally:
            await run_to_completion(store.discard, staged)


@dataclass(frozen=True, slots=True)
class RunUploads:
    """Uploads of one thread, for its runs."""

    uploads: UploadService
    owner: str
    thread_id: str

    async def list(self) -> Sequence[UploadedFile]:
        return await self.uploads.list(self.owner, self.thread_id)

    async def wait_for_conversions(self, filenames: Sequence[str]) -> Mapping[str, UploadedFile]:
        return await self.uploads.wait_for_conversions(self.owner, self.thread_id, filenames)


def serialize_upload(file: UploadedFile, thread_id: str) -> dict[str, Any]:
    """Return an upload as JSON data."""
    markdown = file.markdown_path
    return {
        "filename": file.filename,
        "size": file.size,
        "path": file.path,
        "virtual_path": file.path,
        "artifact_url": build_artifact_url(thread_id, file.path),
        "extension": file.extension,
        "modified": to_jsonable_python(file.modified),
        "original_filename": file.original_filename,
        "conversion": file.conversion,
        "conversion_note": file.note,
        "markdown_file": file.markdown_file,
        "markdown_path": markdown,
        "markdown_virtual_path": markdown,
        "markdown_artifact_url": build_artifact_url(thread_id, markdown) if markdown else None,
        "outline": to_jsonable_python(asdict(file.outline)) if file.outline else None,
    }


def serialize_upload_result(received: UploadResult, thread_id: str) -> dict[str, Any]:
    """Return the result of an upload as JSON data."""
    kept, skipped = len(received.files), len(received.skipped)
    message = f"{kept} file{'' if kept == 1 else 's'} uploaded"
    return {
        "success": not skipped,
        "files": [serialize_upload(file, thread_id) for file in received.files],
        "message": f"{message}, {skipped} skipped" if skipped else message,
        "skipped_files": [asdict(each) for each in received.skipped],
    }


def serialize_uploads(files: Sequence[UploadedFile], thread_id: str) -> dict[str, Any]:
    """Return all uploads of a thread as JSON data."""
    return {"files": [serialize_upload(file, thread_id) for file in files], "count": len(files)}


def serialize_limits(settings: UploadsConfig) -> dict[str, int]:
    """Return the limits of one upload as JSON data."""
    names = ("max_files", "max_file_size", "max_total_size")
    return {name: getattr(settings, name) for name in names}


def build_artifact_url(thread_id: str, path: str) -> str:
    """Return the URL path of a file in the HTTP API."""
    return f"/api/threads/{thread_id}/artifacts{quote(path)}"
