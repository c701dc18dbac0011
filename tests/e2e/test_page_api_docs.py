"""Swagger UI in a browser: it renders, and loads nothing from other origins."""

import pytest
from playwright.async_api import expect

from tests.e2e.server_process import RunningServer
from tests.e2e.support import Visitor

pytestmark = pytest.mark.browser


async def test_swagger_ui_renders_without_requests_to_other_origins(
    demo_server: RunningServer, visitor: Visitor
) -> None:
    page = await visitor.open(f"{demo_server.url}/api/docs")
    await expect(page.get_by_role("heading", name="DeerFlow")).to_be_visible()
    await expect(page.locator("#operations-models-list_models_api_models_get")).to_be_visible()
