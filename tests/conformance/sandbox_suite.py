"""Conformance suite for files and searches. Providers subclass it with their fixtures.

`provider` is an opened provider, with a skill at `/mnt/skills/greeting/SKILL.md` if it can show any; `sandbox` is a
new thread of it.
"""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deerflow.domain.errors import FileProblem, SandboxError
from deerflow.domain.files import OUTPUTS, UPLOADS, WORKSPACE
from deerflow.domain.sandbox import GrepMatch, Sandbox
from deerflow.sandbox.sandbox_provider import SandboxProvider

CONTENTS = {
    "nothing": b"",
    "byte order mark": b"\xef\xbb\xbfhello\n",
    "windows lines": b"a\r\nb\r\n",
    "old lines": b"a\rb\r",
    "no final newline": b"a\nb",
    "beyond ascii": "naïve 深 🦌\n".encode(),
    "zero": b"a\0b",
}
file_names = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=50
).filter(lambda name: name not in (".", "..") and not name.startswith(".deerflow-unfinished-"))


async def write_files(sandbox: Sandbox, *names: str, content: str = "needle\n") -> None:
    for name in names:
        await sandbox.write_file(f"{WORKSPACE}/{name}", content)


async def acquire(provider: SandboxProvider, thread_id: str, user_id: str = "local") -> Sandbox:
    sandbox = await provider.get(await provider.acquire(thread_id, user_id))
    assert sandbox is not None
    return sandbox


class ProviderSuite:
    """Sandbox providers."""

    async def test_returns_the_same_sandbox_for_the_same_thread(self, provider: SandboxProvider) -> None:
        first, again = await provider.acquire("same", "local"), await provider.acquire("same", "local")
        assert first == again
        assert await provider.get(first) is await provider.get(again)

    async def test_concurrent_acquires_of_a_new_thread_return_one_sandbox(self, provider: SandboxProvider) -> None:
        ids = await asyncio.gather(*(provider.acquire("at-once", "local") for _ in range(5)))
        assert len(set(ids)) == 1

    @pytest.mark.parametrize("other", [("other", "local"), ("mine", "somebody")])
    async def test_separates_files_by_thread_and_user(self, provider: SandboxProvider, other: tuple[str, str]) -> None:
        own, others = await acquire(provider, "mine"), await acquire(provider, *other)
        await own.write_file(f"{WORKSPACE}/secret.txt", "mine")
        assert own.id != others.id
        with pytest.raises(FileProblem):
            await others.read_file(f"{WORKSPACE}/secret.txt")

    async def test_returns_none_for_an_unknown_id(self, provider: SandboxProvider) -> None:
        assert await provider.get("no such sandbox") is None

    async def test_keeps_files_of_a_released_sandbox(self, provider: SandboxProvider) -> None:
        sandbox = await acquire(provider, "released")
        await sandbox.write_file(f"{OUTPUTS}/kept.txt", "kept")
        await provider.release(sandbox.id)
        again = await acquire(provider, "released")
        assert (again.id, await again.read_file(f"{OUTPUTS}/kept.txt")) == (sandbox.id, "kept")

    async def test_ignores_release_and_discard_of_unknown_sandboxes(self, provider: SandboxProvider) -> None:
        await provider.release("no such sandbox")
        await provider.discard("no-such-thread", "local")

    async def test_acquires_a_discarded_thread_again(self, provider: SandboxProvider) -> None:
        before = await provider.acquire("discarded", "local")
        await provider.discard("discarded", "local")
        after = await acquire(provider, "discarded")
        await after.write_file(f"{WORKSPACE}/a", "a")
        assert after.id == before


class FileSuite:
    """File operations of tools."""

    @pytest.mark.parametrize("kind", CONTENTS)
    async def test_keeps_bytes_unchanged(self, sandbox: Sandbox, kind: str) -> None:
        path = f"{UPLOADS}/{kind}.bin"
        await sandbox.update_file(path, CONTENTS[kind])
        assert await sandbox.download(path) == CONTENTS[kind]
        assert (await sandbox.read_file(path)).encode() == CONTENTS[kind]

    async def test_returns_any_bytes_under_any_name_unchanged(self, sandbox: Sandbox) -> None:
        loop = asyncio.get_running_loop()

        async def round_trip(name: str, content: bytes) -> bytes:
            await sandbox.update_file(f"{OUTPUTS}/any/{name}", content)
            return await sandbox.download(f"{OUTPUTS}/any/{name}")

        @settings(max_examples=50, deadline=None, database=None, derandomize=True)
        @given(file_names.filter(lambda name: len(name.encode()) <= 255), st.binary(max_size=2000))
        def check(name: str, content: bytes) -> None:
            assert asyncio.run_coroutine_threadsafe(round_trip(name, content), loop).result(30) == content

        await asyncio.to_thread(check)

    async def test_writes_replace_and_appends_extend(self, sandbox: Sandbox) -> None:
        path = f"{WORKSPACE}/deep/er/notes.txt"
        await sandbox.write_file(path, "long and gone")
        await sandbox.write_file(path, "one\r\n")
        await sandbox.write_file(path, "zwei", append=True)
        assert await sandbox.download(path) == b"one\r\nzwei"

    async def test_append_creates_the_file(self, sandbox: Sandbox) -> None:
        await sandbox.write_file(f"{WORKSPACE}/log/new.txt", "first\n", append=True)
        assert await sandbox.read_file(f"{WORKSPACE}/log/new.txt") == "first\n"

    async def test_refuses_binary_as_text_and_downloads_it_as_bytes(self, sandbox: Sandbox) -> None:
        await sandbox.update_file(f"{WORKSPACE}/image.png", b"\x89PNG\xff\xfe")
        with pytest.raises(FileProblem, match="UTF-8"):
            await sandbox.read_file(f"{WORKSPACE}/image.png")
        assert await sandbox.download(f"{WORKSPACE}/image.png") == b"\x89PNG\xff\xfe"

    async def test_refuses_text_that_utf8_cannot_encode(self, sandbox: Sandbox) -> None:
        with pytest.raises(FileProblem, match="surrogate|UTF-8"):
            await sandbox.write_file(f"{WORKSPACE}/bad.txt", "\ud800")

    @pytest.mark.parametrize("path", [f"{WORKSPACE}/none.txt", f"{WORKSPACE}/no/folder/none.txt"])
    async def test_names_a_missing_file(self, sandbox: Sandbox, path: str) -> None:
        for attempt in (sandbox.read_file, sandbox.download, sandbox.list_dir):
            with pytest.raises(FileProblem, match="no such file"):
                await attempt(path)

    async def test_refuses_a_folder_as_a_file(self, sandbox: Sandbox) -> None:
        await write_files(sandbox, "folder/file.txt")
        for attempt in (sandbox.read_file, sandbox.download):
            with pytest.raises(FileProblem, match="folder"):
                await attempt(f"{WORKSPACE}/folder")
        with pytest.raises(FileProblem, match="folder"):
            await sandbox.update_file(f"{WORKSPACE}/folder", b"x")
        with pytest.raises(FileProblem, match="folder"):
            await sandbox.update_file(WORKSPACE, b"x")

    async def test_refuses_a_file_as_a_folder(self, sandbox: Sandbox) -> None:
        await write_files(sandbox, "file.txt")
        with pytest.raises(FileProblem, match="not a folder"):
            await sandbox.write_file(f"{WORKSPACE}/file.txt/below.txt", "x")
        with pytest.raises(FileProblem, match="not a folder"):
            await sandbox.list_dir(f"{WORKSPACE}/file.txt")

    @pytest.mark.parametrize(
        "path",
        ["/etc/passwd", "relative.txt", "", "/", "/mnt/user-data-other/x", f"{WORKSPACE}x/y"]
        + [f"{WORKSPACE}/../../../etc/passwd", f"{WORKSPACE}/a/../b", f"{WORKSPACE}/.."],
    )
    async def test_refuses_paths_outside_the_sandbox(self, sandbox: Sandbox, path: str) -> None:
        for attempt in (sandbox.read_file, sandbox.download, sandbox.list_dir):
            with pytest.raises(FileProblem):
                await attempt(path)
        with pytest.raises(FileProblem):
            await sandbox.write_file(path, "x")
        with pytest.raises(FileProblem):
            await sandbox.glob(path, "*")
        with pytest.raises(FileProblem):
            await sandbox.grep(path, "x")

    @pytest.mark.parametrize("name", ["zero\0", "half \ud800", "n" * 256])
    async def test_refuses_invalid_file_names(self, sandbox: Sandbox, name: str) -> None:
        with pytest.raises(FileProblem):
            await sandbox.write_file(f"{WORKSPACE}/{name}", "x")

    async def test_refuses_writes_to_read_only_mounts(self, sandbox: Sandbox) -> None:
        with pytest.raises(FileProblem, match="read-only"):
            await sandbox.write_file("/mnt/skills/greeting/SKILL.md", "mine")
        with pytest.raises(FileProblem, match="read-only"):
            await sandbox.write_file("/mnt/skills/new.md", "mine", append=True)

    async def test_lists_to_the_requested_depth(self, sandbox: Sandbox) -> None:
        await write_files(sandbox, "list/a.txt", "list/b/c.txt", "list/b/d/e.txt", "list/b/d/f/g.txt")
        folder = f"{WORKSPACE}/list"
        assert (await sandbox.list_dir(folder, 1)).paths == [f"{folder}/a.txt", f"{folder}/b/"]
        two = [f"{folder}/a.txt", f"{folder}/b/", f"{folder}/b/c.txt", f"{folder}/b/d/"]
        assert (await sandbox.list_dir(folder)).paths == two

    async def test_marks_a_truncated_listing(self, sandbox: Sandbox) -> None:
        await write_files(sandbox, *(f"many/{number}.txt" for number in range(5)))
        for limit, more in ((3, True), (5, False)):
            found = await sandbox.list_dir(f"{WORKSPACE}/many", 1, limit)
            assert (len(found.paths), found.truncated) == (limit, more)

    async def test_lists_an_empty_folder(self, sandbox: Sandbox) -> None:
        assert (await sandbox.list_dir(UPLOADS)).paths == []


class SearchSuite:
    """Searches for files and lines."""

    @pytest.mark.parametrize(
        ("pattern", "expected"),
        [
            ("*.py", ["a.py", "b/c.py", "b/d/e.py"]),
            ("b/*.py", ["b/c.py"]),
            ("b/**/*.py", ["b/c.py", "b/d/e.py"]),
            ("**/e.py", ["b/d/e.py"]),
            ("?.md", ["x.md"]),
            ("*.none", []),
        ],
    )
    async def test_finds_files_by_pattern(self, sandbox: Sandbox, pattern: str, expected: list[str]) -> None:
        await write_files(sandbox, "g/a.py", "g/b/c.py", "g/b/d/e.py", "g/x.md", "g/xy.md")
        found = await sandbox.glob(f"{WORKSPACE}/g", pattern)
        assert found.paths == [f"{WORKSPACE}/g/{name}" for name in expected]
        assert not found.truncated

    async def test_finds_folders_on_request(self, sandbox: Sandbox) -> None:
        await write_files(sandbox, "g/tests/a.py", "g/b/tests/a.py")
        assert (await sandbox.glob(f"{WORKSPACE}/g", "tests")).paths == []
        with_folders = await sandbox.glob(f"{WORKSPACE}/g", "tests", include_dirs=True)
        assert with_folders.paths == [f"{WORKSPACE}/g/b/tests/", f"{WORKSPACE}/g/tests/"]

    @pytest.mark.parametrize("pattern", ["../*", "**/../../*", "//usr/*", "/usr/*", "../../../../../../../*"])
    async def test_patterns_do_not_leave_the_folder(self, sandbox: Sandbox, pattern: str) -> None:
        await write_files(sandbox, "g/tests/a.py", "beside/a.py")
        try:
            found = await sandbox.glob(f"{WORKSPACE}/g", pattern, include_dirs=True)
        except SandboxError:
            return
        assert found.paths == []

    async def test_marks_a_truncated_search(self, sandbox: Sandbox) -> None:
        await write_files(sandbox, *(f"g/{number}.txt" for number in range(5)), content="needle\nneedle\n")
        files = await sandbox.glob(f"{WORKSPACE}/g", "*", max_results=4)
        lines = await sandbox.grep(f"{WORKSPACE}/g", "needle", max_results=3)
        assert (len(files.paths), files.truncated, len(lines.matches), lines.truncated) == (4, True, 3, True)
        everything = await sandbox.grep(f"{WORKSPACE}/g", "needle", max_results=10)
        assert (len(everything.matches), everything.truncated) == (10, False)

    async def test_finds_lines_with_their_numbers(self, sandbox: Sandbox) -> None:
        await sandbox.update_file(f"{WORKSPACE}/s/a.txt", "first\nNeedle 深\r\nlast needle".encode())
        found = await sandbox.grep(f"{WORKSPACE}/s", "need.e")
        path = f"{WORKSPACE}/s/a.txt"
        assert found.matches == [GrepMatch(path, 2, "Needle 深"), GrepMatch(path, 3, "last needle")]

    async def test_matches_case_on_request(self, sandbox: Sandbox) -> None:
        await write_files(sandbox, "s/a.txt", content="Needle\nneedle\n")
        found = await sandbox.grep(f"{WORKSPACE}/s", "Needle", case_sensitive=True)
        assert [match.line_number for match in found.matches] == [1]

    @pytest.mark.parametrize("pattern", ["a.b(", "-e", "--files", "[", "\\"])
    async def test_treats_literal_text_as_text(self, sandbox: Sandbox, pattern: str) -> None:
        await write_files(sandbox, "s/a.txt", content=f"axb\nhas {pattern} inside\n")
        found = await sandbox.grep(f"{WORKSPACE}/s", pattern, literal=True)
        assert [match.line_number for match in found.matches] == [2]

    async def test_limits_a_search_to_a_glob(self, sandbox: Sandbox) -> None:
        await write_files(sandbox, "s/a.py", "s/a.md", "s/b/c.py")
        found = await sandbox.grep(f"{WORKSPACE}/s", "needle", glob="*.py")
        assert [match.path for match in found.matches] == [f"{WORKSPACE}/s/a.py", f"{WORKSPACE}/s/b/c.py"]

    async def test_refuses_an_invalid_expression(self, sandbox: Sandbox) -> None:
        with pytest.raises(SandboxError, match="search failed"):
            await sandbox.grep(WORKSPACE, "need(e")

    async def test_refuses_a_search_in_a_missing_folder(self, sandbox: Sandbox) -> None:
        with pytest.raises(FileProblem, match="no such file"):
            await sandbox.grep(f"{WORKSPACE}/none", "x")
        with pytest.raises(FileProblem, match="no such file"):
            await sandbox.glob(f"{WORKSPACE}/none", "x")

    async def test_skips_excluded_names(self, sandbox: Sandbox) -> None:
        await write_files(
            sandbox, "s/.git/a", "s/node_modules/b/c.js", "s/__pycache__/d.pyc", "s/.venv/e.py", "s/kept.py"
        )
        assert (await sandbox.glob(f"{WORKSPACE}/s", "**")).paths == [f"{WORKSPACE}/s/kept.py"]
        assert (await sandbox.glob(f"{WORKSPACE}/s", "b", include_dirs=True)).paths == []
        found = await sandbox.grep(f"{WORKSPACE}/s", "needle")
        assert [match.path for match in found.matches] == [f"{WORKSPACE}/s/kept.py"]

    async def test_finds_unusual_names(self, sandbox: Sandbox) -> None:
        names = ["two\nlines.txt", "a:1:b.txt", "-dash.txt", " space .txt", "深.txt", "star*.txt"]
        await write_files(sandbox, *(f"odd/{name}" for name in names))
        expected = sorted(f"{WORKSPACE}/odd/{name}" for name in names)
        assert (await sandbox.glob(f"{WORKSPACE}/odd", "*.txt")).paths == expected
        found = await sandbox.grep(f"{WORKSPACE}/odd", "needle")
        assert sorted(match.path for match in found.matches) == expected

    async def test_search_skips_binary_files(self, sandbox: Sandbox) -> None:
        await sandbox.update_file(f"{WORKSPACE}/s/a.bin", b"\0\1\2needle\n")
        await write_files(sandbox, "s/b.txt")
        found = await sandbox.grep(f"{WORKSPACE}/s", "needle")
        assert [match.path for match in found.matches] == [f"{WORKSPACE}/s/b.txt"]
