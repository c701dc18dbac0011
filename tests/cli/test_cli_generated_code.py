"""Bytecode of generated methods, which is kept between starts."""

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Any

import pytest

from deerflow.cli.main import COMMANDS, GeneratedCode, keep_generated_code, locate_generated_code


@pytest.fixture(autouse=True)
def may_write_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)


def make_point() -> type[Any]:
    @dataclasses.dataclass(frozen=True, slots=True, order=True)
    class Point:
        x: int
        y: int = 7

    return Point


def test_classes_from_kept_code_are_like_those_that_were_compiled(tmp_path: Path) -> None:
    compiled = make_point()
    with keep_generated_code(tmp_path / "kept"):
        make_point()
    with keep_generated_code(tmp_path / "kept"):
        kept = make_point()

    assert (repr(kept(1)), hash(kept(1))) == (repr(compiled(1)), hash(compiled(1)))
    assert kept(1) == kept(1, 7) != kept(2) and kept(1) < kept(1, 8) and kept(1) != compiled(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        kept(1).x = 2
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        kept()


def test_kept_code_is_not_compiled_again(tmp_path: Path) -> None:
    first = run_source(tmp_path / "kept", "a = 1")
    again = run_source(tmp_path / "kept", "a = 1")
    changed = run_source(tmp_path / "kept", "a = 2")

    assert (first.compiled, again.compiled, changed.compiled) == (1, 0, 1)


def test_code_that_is_no_longer_used_is_dropped(tmp_path: Path) -> None:
    run_source(tmp_path / "kept", "a = 1", "b = 1")
    run_source(tmp_path / "kept", "b = 1", "c = 1")

    assert run_source(tmp_path / "kept", "b = 1", "c = 1").compiled == 0
    assert run_source(tmp_path / "kept", "a = 1").compiled == 1


def truncate(content: bytes) -> bytes:
    return content[:-10]


def damage(content: bytes) -> bytes:
    return content[:-10] + bytes(10)


def empty(_content: bytes) -> bytes:
    return b""


def take_from_another_python(content: bytes) -> bytes:
    return bytes(len(MAGIC_NUMBER)) + content[len(MAGIC_NUMBER) :]


@pytest.mark.parametrize("change", [truncate, damage, empty, take_from_another_python])
def test_a_damaged_or_foreign_file_is_replaced(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    file = tmp_path / "kept"
    run_source(file, "a = 1")
    file.write_bytes(change(file.read_bytes()))

    assert run_source(file, "a = 1").compiled == 1
    assert run_source(file, "a = 1").compiled == 0


def test_a_file_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()  # a folder in its place cannot be replaced, nor one below a file made

    run_source(tmp_path / "kept", "a = 1")
    assert [file.name for file in tmp_path.iterdir()] == ["kept"]
    (tmp_path / "file").touch()
    assert run_source(tmp_path / "file" / "kept", "a = 1").compiled == 1


def test_nothing_is_written_where_bytecode_must_not_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    run_source(tmp_path / "kept", "a = 1")
    assert list(tmp_path.iterdir()) == []


def test_the_library_is_as_before_also_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), keep_generated_code(tmp_path / "kept"):
        assert "exec" in vars(dataclasses)
        1 / 0  # noqa: B018

    assert "exec" not in vars(dataclasses)
    with keep_generated_code(None):
        assert "exec" not in vars(dataclasses)


def test_each_command_has_a_file_of_its_own_next_to_the_bytecode_of_modules() -> None:
    files = {locate_generated_code([name]) for name in COMMANDS}

    assert len(files) == len(COMMANDS)
    assert {file.parent.name for file in files if file} == {"__pycache__"}
    assert locate_generated_code(()) is locate_generated_code(tuple(COMMANDS)) is None


@pytest.mark.slow
def test_a_start_takes_the_methods_of_classes_from_the_file_of_the_start_before(tmp_path: Path) -> None:
    program = (
        "import sys; sys.argv = ['deerflow', 'config', '--help']; sys.dont_write_bytecode = False\n"
        "from deerflow.cli import main\n"
        "class Counted(main.GeneratedCode):\n"
        "    def save(self): super().save(); print('compiled', self.compiled > 0)\n"
        "main.GeneratedCode, main.run = Counted, lambda app: None\n"
        "main.main()"
    )
    command = [sys.executable, "-X", f"pycache_prefix={tmp_path}", "-c", program]
    outputs = [subprocess.run(command, capture_output=True, text=True, timeout=60, check=True) for _ in range(2)]

    assert [done.stdout for done in outputs] == ["compiled True\n", "compiled False\n"]
    assert len(list(tmp_path.rglob("config.*.dataclasses"))) == 1


def run_source(file: Path, *texts: str) -> GeneratedCode:
    """Execute texts as one start does."""
    code = GeneratedCode(file)
    for text in texts:
        results: dict[str, object] = {}
        code.execute(text, {}, results)
        assert list(results.values()) == [int(text[-1])]
    code.save()
    return code
