"""Previews of files made by Word, PowerPoint, Excel, LibreOffice and WPS."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

from deerflow.config.source import open_source
from deerflow.harness import Harness, open_harness
from deerflow.testing import ScriptedModel
from tests.gateway.support import put_file
from tests.real_office_files import FAMILIES, RealFile, real_office_files
from tests.support import browse

pytestmark = [pytest.mark.external, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
async def harness(tmp_path: Path, toolbox_environment: Mapping[str, str]) -> AsyncIterator[Harness]:
    source = open_source(directory=tmp_path, environment=toolbox_environment)
    async with open_harness(source, ScriptedModel.saying()) as harness:
        yield harness


async def get_preview(harness: Harness, number: int, file: RealFile) -> dict[str, object]:
    """Return the preview of a file, or the error."""
    content = await asyncio.to_thread(file.path.read_bytes)
    name = f"{number}{file.path.suffix.lower()}"
    url = (await put_file(harness, name, content)).replace("/artifacts/", "/file-previews/")
    async with browse(harness) as http:
        http.timeout = 120
        answer = await http.get(url)
        return {"status": answer.status_code, **answer.json()}


async def test_files_of_real_office_programs_have_previews(harness: Harness) -> None:
    files = await asyncio.to_thread(real_office_files)
    families = Counter(file.family for file in files)
    assert len(files) >= 40 and set(families) == set(FAMILIES), families
    problems = {}
    for number, file in enumerate(files):
        preview = await get_preview(harness, number, file)
        if preview["status"] != 200:
            problems[f"{file.path.parts[-3:]} by {file.program}"] = preview
        for slide in preview.get("slides", []):  # type: ignore[attr-defined]
            assert ElementTree.fromstring(slide["svg"]).tag == "{http://www.w3.org/2000/svg}svg"
    assert problems == {}
