"""`deerflow threads`, seen from a terminal."""

import json
from pathlib import Path

from typer.testing import CliRunner

from deerflow.cli.threads import app
from deerflow.domain.errors import NotFound
from tests.cli.test_cli_runs import happened


def test_a_thread_is_written_to_a_file_or_printed(tmp_path: Path) -> None:
    happened(tmp_path, "Done.")
    home, file = {"DEER_FLOW_PROJECT_ROOT": str(tmp_path)}, tmp_path / "t.json"
    printed = CliRunner().invoke(app, ["export", "t"], env=home)
    assert printed.exit_code == 0 and printed.stdout.startswith("# Make a file\n") and "Done." in printed.stdout
    written = CliRunner().invoke(app, ["export", "t", "--format", "json", "-o", str(file)], env=home)
    assert written.exit_code == 0 and json.loads(file.read_text())["thread"]["thread_id"] == "t"
    missing = CliRunner().invoke(app, ["export", "none"], env=home)
    assert isinstance(missing.exception, NotFound)
