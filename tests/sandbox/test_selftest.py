"""The self-test of isolation."""

from pathlib import Path

from deerflow.sandbox.selftest import check_isolation, find_bubblewrap, try_out
from tests.support import needs


def test_a_machine_with_bubblewrap_can_isolate() -> None:
    needs("bwrap")
    isolation = check_isolation()
    assert isolation.works and isolation.program is not None, isolation.problem


def test_the_systems_bubblewrap_is_preferred_to_the_one_in_the_wheel() -> None:
    system = needs("bwrap")
    found = find_bubblewrap()
    assert found[0] == Path(system)
    assert any("site-packages" in str(path) for path in found)


def test_a_program_that_does_not_isolate_is_found_out(tmp_path: Path) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho no user namespaces here >&2\nexit 1\n")
    tmp_path.chmod(0o755)
    fake.chmod(0o755)
    assert "no user namespaces here" in (try_out(fake) or "") or "denied" in (try_out(fake) or "")
    assert try_out(tmp_path / "missing") is not None
