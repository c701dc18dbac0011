"""Swagger UI at /api/docs."""

import gc
import re
import weakref
from pathlib import Path

import pytest

from deerflow.gateway.app import DOCS_URL, OPENAPI_URL, SWAGGER_FILES, create_app
from deerflow.testing import ScriptedModel
from tests.support import OpenHarness, browse


async def test_the_page_and_its_files_are_served_without_external_urls(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        page = await http.get(DOCS_URL)
        assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
        urls = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        assert {Path(url).name for url in urls} == {*SWAGGER_FILES, "init.js"}
        assert all(url.startswith(f"{DOCS_URL}/") for url in urls) and "://" not in page.text
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "://" not in policy and "script-src 'self';" in policy
        for url in urls:
            file = await http.get(url)
            assert file.status_code == 200 and file.content, url
        assert (await http.get(f"{DOCS_URL}/init.js")).text.startswith('SwaggerUIBundle({url: "/api/openapi.json"')
        assert (await http.get("/api/openapi.json")).json()["info"]["title"] == "DeerFlow"


@pytest.mark.parametrize("name", ["redoc.standalone.js", "..%2f__init__.py", "%2e%2e", "none.js"])
async def test_other_files_are_not_found(harness_saying: OpenHarness, name: str) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness, browse(harness) as http:
        assert (await http.get(f"{DOCS_URL}/{name}")).status_code == 404


async def test_an_application_that_is_not_used_any_more_is_released(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying()) as harness:
        app = create_app(harness)
        async with browse(harness, app) as http:
            for path in (DOCS_URL, f"{DOCS_URL}/init.js", OPENAPI_URL, "/", "/api/threads/t"):
                await http.get(path)
        released = weakref.ref(app)
        del app
        gc.collect()
        assert released() is None
