"""Requests generated from the OpenAPI document do not break the server."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from deerflow.gateway.examples import CHECKPOINT, RUN, THREAD
from tests.gateway.populated_server import PopulatedServer

pytestmark = pytest.mark.slow

MAX_EXAMPLES = 6
"""Requests per route."""
UNSUITABLE = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
HOP_BY_HOP = frozenset({"host", "content-length", "transfer-encoding", "connection", "expect", "upgrade", "te"})


@pytest.fixture(scope="module")
def ids(server: PopulatedServer) -> dict[str, str]:
    with server.client() as http:
        return server.seed(http)


# The server, in a thread of its own, takes random numbers while requests are made up.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module:hypothesis.errors.HypothesisDeprecationWarning")
def test_generated_requests_do_not_fail_the_server(server: PopulatedServer, ids: dict[str, str]) -> None:
    schema = schemathesis.openapi.from_dict(server.document)
    known = {"thread_id": THREAD, "run_id": ids[RUN], "checkpoint_id": ids[CHECKPOINT]}
    failed: dict[str, str] = {}
    answered: Counter[int] = Counter()
    with server.client() as http:
        for result in schema.get_all_operations():
            bounded(result.ok().as_strategy(), http, known, answered, failed)()
        assert http.get("/health").status_code == 200
    assert failed == {}
    assert sum(answered.values()) > 400 and answered[200] > 50, answered


def bounded(
    strategy: st.SearchStrategy[Any],
    http: httpx.Client,
    known: Mapping[str, str],
    answered: Counter[int],
    failed: dict[str, str],
) -> Callable[[], None]:
    """Send generated requests, each with real ids and as generated."""

    @settings(
        max_examples=MAX_EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=UNSUITABLE,
    )
    @given(strategy)
    def check(case: Any) -> None:
        for path in {build_path(case, {}), build_path(case, known)}:
            response = send(http, case, path)
            answered[response.status_code if response is not None else 0] += 1
            if response is None or response.status_code < 400:
                continue
            assert response.json().keys() >= {"detail", "error"}, response.text
            if response.status_code >= 500:
                asked = f"{case.method} {path} {case.query} {case.body!r:.300}"
                failed[f"{case.method} {case.path}"] = f"{response.status_code} {response.text[:200]} for {asked}"

    return check


def build_path(case: Any, known: Mapping[str, str]) -> str:
    """Return the path of a generated request with real ids."""
    values = {**(case.path_parameters or {}), **known}
    return re.sub(r"{(\w+)}", lambda part: quote(str(values[part[1]]), safe="", errors="replace"), case.path)


def send(http: httpx.Client, case: Any, path: str) -> httpx.Response | None:
    """Send a generated request, if it is valid HTTP; only the start of a stream is read."""
    body = {} if isinstance(case.body, schemathesis.core.NotSet) else build_content(case)
    headers = {name: str(value) for name, value in (case.headers or {}).items() if name.lower() not in HOP_BY_HOP}
    try:
        encoded = [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers.items()]
        request = http.build_request(case.method, path, params=case.query or {}, headers=encoded, **body)
        return http.send(request)
    except (UnicodeEncodeError, httpx.LocalProtocolError, httpx.InvalidURL, ValueError):
        return None


def build_content(case: Any) -> dict[str, Any]:
    if case.media_type and "json" in case.media_type:
        return {"json": case.body}
    return {"content": case.body if isinstance(case.body, bytes) else repr(case.body).encode()}
