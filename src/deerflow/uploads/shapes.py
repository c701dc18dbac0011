"""An upload in the shape that the HTTP API and the Python client share."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from pydantic_core import to_jsonable_python

from deerflow.config.uploads import UploadsConfig
from deerflow.domain.uploads import Received, UploadedFile


def show_upload(file: UploadedFile, thread_id: str) -> dict[str, Any]:
    """One upload."""
    markdown = file.markdown_path
    return {
        "filename": file.filename,
        "size": file.size,
        "path": file.path,
        "virtual_path": file.path,
        "artifact_url": artifact_url(thread_id, file.path),
        "extension": file.extension,
        "modified": to_jsonable_python(file.modified),
        "original_filename": file.original_filename,
        "conversion": file.conversion,
        "conversion_note": file.note,
        "markdown_file": file.markdown_file,
        "markdown_path": markdown,
        "markdown_virtual_path": markdown,
        "markdown_artifact_url": artifact_url(thread_id, markdown) if markdown else None,
        "outline": to_jsonable_python(asdict(file.outline)) if file.outline else None,
    }


def show_received(received: Received, thread_id: str) -> dict[str, Any]:
    """What came of an upload."""
    kept, skipped = len(received.files), len(received.skipped)
    counted = f"{kept} file{'' if kept == 1 else 's'} uploaded"
    return {
        "success": not skipped,
        "files": [show_upload(file, thread_id) for file in received.files],
        "message": f"{counted}, {skipped} skipped" if skipped else counted,
        "skipped_files": [asdict(each) for each in received.skipped],
    }


def show_list(files: Sequence[UploadedFile], thread_id: str) -> dict[str, Any]:
    """All uploads of a thread."""
    return {"files": [show_upload(file, thread_id) for file in files], "count": len(files)}


def show_limits(settings: UploadsConfig) -> dict[str, int]:
    """How much one upload may have."""
    names = ("max_files", "max_file_size", "max_total_size")
    return {name: getattr(settings, name) for name in names}


def artifact_url(thread_id: str, path: str) -> str:
    """Where the API serves a file."""
    return f"/api/threads/{thread_id}/artifacts{quote(path)}"
