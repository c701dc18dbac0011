"""Sandbox tools: their results and effects on files."""

from pathlib import Path

import pytest

from deerflow.domain.runs import RunStatus
from deerflow.testing import Answer, ScriptedModel, calling, in_parallel
from tests.sandbox.support import OUTPUTS, WORK, act, ask, open_sandbox_harness, state_of, tool_results, use, work

FILE = f"{WORK}/notes.txt"


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (act("bash", command=" \n"), "the command is empty"),
        (act("bash", command="echo \0"), "the command contains a zero byte"),
        (act("bash_output", name="nobody"), "there is no background process 'nobody'; there is none"),
        (act("bash", command="true", background=True, name="../x"), "a name is 1 to 64 letters"),
        (act("read_file", path=f"{WORK}/none.txt"), "there is no such file"),
        (act("read_file", path=WORK), "it is a folder"),
        (
            act("read_file", path="/etc/shadow"),
            "'/etc/shadow' is outside the sandbox folders; paths start with /mnt/user-data/",
        ),
        (act("read_file", path=f"{WORK}/../uploads/x"), "must not contain '..'"),
        (act("ls", path=f"{WORK}/none"), "there is no such"),
        (act("glob", path=f"{WORK}/none", pattern="*"), "there is no such"),
        (act("grep", path=WORK, pattern="("), "the search failed"),
        (act("write_file", path=WORK, content="x"), "it is a folder"),
        (act("write_file", path="/mnt/acp-workspace/x", content="x"), "read-only"),
        (act("str_replace", path=f"{WORK}/none.txt", old_str="a", new_str="b"), "there is no such file"),
    ],
)
async def test_reports_errors_to_the_model_and_the_run_continues(tmp_path: Path, reply: Answer, message: str) -> None:
    async with open_sandbox_harness(tmp_path, ScriptedModel.saying(reply, "I see.")) as harness:
        run = await ask(harness)
        answer = (await tool_results(harness))[0]
        assert run.status is RunStatus.SUCCESS, run.error
        assert answer["status"] == "error" and answer["content"].startswith("Error: ") and message in answer["content"]
        assert (await state_of(harness))["messages"][-1]["content"] == "I see."


async def test_tools_require_a_description(tmp_path: Path) -> None:
    [answer] = await use(tmp_path, calling("bash", command="true"))
    assert answer.startswith("Error: bash was not called, its arguments do not fit: description")


async def test_returns_output_and_exit_code_of_a_command(tmp_path: Path) -> None:
    message = await use(
        tmp_path,
        act("bash", command="true"),
        act("bash", command="echo out; echo err >&2; exit 3"),
        act("bash", command="false"),
        act("bash", command="pwd; touch a; cd /tmp; export X=1"),
        act("bash", command='pwd; ls; echo "X=$X"'),
        act("bash", command="kill -9 $$"),
    )
    assert message == [
        "(no output)",
        "out\nerr\n[exit code 3]",
        "(no output)\n[exit code 1]",
        WORK,
        f"{WORK}\na\nX=",
        "(no output)\n[exit code 137]",
    ]


async def test_omits_the_middle_of_long_output(tmp_path: Path) -> None:
    command = "printf 'a%.0s' {1..150}; printf 'z%.0s' {1..150}"
    [message] = await use(tmp_path, act("bash", command=command), sandbox={"bash_output_max_chars": 100})
    assert message == f"{'a' * 50}\n[… 200 characters left out …]\n{'z' * 50}"


@pytest.mark.slow
async def test_reports_a_command_timeout(tmp_path: Path) -> None:
    [message] = await use(tmp_path, act("bash", command="echo begun; sleep 1000"), sandbox={"bash_command_timeout": 1})
    assert message == "begun\n[ended after 1 s; run long jobs in the background]\n[exit code 124]"


async def test_lists_a_folder_two_levels_deep(tmp_path: Path) -> None:
    message = await use(
        tmp_path,
        act("ls", path=OUTPUTS),
        act("bash", command=f"mkdir -p {OUTPUTS}/a/b/c && touch {OUTPUTS}/{{1.txt,a/2.txt,a/b/3.txt}}"),
        act("ls", path=OUTPUTS),
    )
    assert (message[0], message[2].splitlines()) == (
        "(empty)",
        [f"{OUTPUTS}/1.txt", f"{OUTPUTS}/a/", f"{OUTPUTS}/a/2.txt", f"{OUTPUTS}/a/b/"],
    )


async def test_lists_the_home_folder_only_on_request(tmp_path: Path) -> None:
    message = await use(
        tmp_path,
        act("bash", command="mkdir -p ~/.cache/pip"),
        act("ls", path=WORK),
        act("ls", path=f"{WORK}/.home"),
    )
    assert message[1:] == ["(empty)", f"{WORK}/.home/.cache/\n{WORK}/.home/.cache/pip/"]


async def test_cuts_a_long_listing_with_a_hint(tmp_path: Path) -> None:
    fill = act("bash", command=f"touch {OUTPUTS}/{{001..200}}")
    message = await use(tmp_path, fill, act("ls", path=OUTPUTS), sandbox={"ls_output_max_chars": 100})
    whole = 200 * len(f"{OUTPUTS}/001\n") - 1
    assert message[1][:100] == "".join(f"{OUTPUTS}/{number:03}\n" for number in range(1, 10))[:100]
    assert message[1][100:] == f"\n[… {whole - 100} of {whole} characters left out; list a folder in it …]"


async def test_finds_files_by_name(tmp_path: Path) -> None:
    message = await use(
        tmp_path,
        act("bash", command="mkdir -p src/deep.py && touch src/a.py src/deep.py/b.py c.txt"),
        act("glob", path=WORK, pattern="**/*.py"),
        act("glob", path=WORK, pattern="**/*.py", include_dirs=True),
        act("glob", path=WORK, pattern="*.rs"),
        act("glob", path=WORK, pattern="**/*.py", max_results=1),
        act("glob", path=WORK, pattern="**/*.py", max_results=-1),
    )
    one = f"Found 1 paths under {WORK}\n1. {WORK}/src/a.py\n(there are more; narrow the search or raise max_results)"
    assert message[1:] == [
        f"Found 2 paths under {WORK}\n1. {WORK}/src/a.py\n2. {WORK}/src/deep.py/b.py",
        f"Found 3 paths under {WORK}\n1. {WORK}/src/a.py\n2. {WORK}/src/deep.py/\n3. {WORK}/src/deep.py/b.py",
        f"No paths under {WORK} match *.rs",
        one,
        one,
    ]


async def test_finds_lines_by_content(tmp_path: Path) -> None:
    fill = r"printf 'One\ntwo (2)\nONE more\n' > a.txt; printf 'one.\n' > b.md; printf 'x%.0s' {1..300} > c"
    message = await use(
        tmp_path,
        act("bash", command=fill),
        act("grep", path=WORK, pattern="one"),
        act("grep", path=WORK, pattern="ONE", case_sensitive=True),
        act("grep", path=WORK, pattern="(2)", literal=True),
        act("grep", path=WORK, pattern="one", glob="*.md"),
        act("grep", path=WORK, pattern="three"),
        act("grep", path=WORK, pattern="x+"),
        act("grep", path=WORK, pattern="one", max_results=1),
    )
    assert message[1].splitlines() == [
        f"Found 3 matches under {WORK}",
        f"{WORK}/a.txt:1: One",
        f"{WORK}/a.txt:3: ONE more",
        f"{WORK}/b.md:1: one.",
    ]
    assert message[2] == f"Found 1 matches under {WORK}\n{WORK}/a.txt:3: ONE more"
    assert message[3] == f"Found 1 matches under {WORK}\n{WORK}/a.txt:2: two (2)"
    assert message[4] == f"Found 1 matches under {WORK}\n{WORK}/b.md:1: one."
    assert message[5] == f"No matches under {WORK}"
    assert message[6] == f"Found 1 matches under {WORK}\n{WORK}/c:1: {'x' * 200}"
    assert message[7].splitlines()[::2] == [
        f"Found 1 matches under {WORK}",
        "(there are more; narrow the search or raise max_results)",
    ]


@pytest.mark.slow
async def test_caps_the_number_of_search_results(tmp_path: Path) -> None:
    message = await use(
        tmp_path,
        act("bash", command="mkdir many && cd many && touch {1..1100} && seq 600 > lines.txt"),
        act("glob", path=f"{WORK}/many", pattern="*", max_results=5000),
        act("grep", path=f"{WORK}/many", pattern="[0-9]", max_results=5000),
        tool_output={"enabled": False},
    )
    for answer, first in ((message[1], "Found 1000 paths"), (message[2], "Found 500 matches")):
        assert answer.startswith(f"{first} under {WORK}/many\n") and "(there are more;" in answer


async def test_reads_a_range_of_lines(tmp_path: Path) -> None:
    (work(tmp_path) / "notes.txt").write_bytes(b"one\r\ntwo\nthree")
    message = await use(
        tmp_path,
        act("read_file", path=FILE),
        act("read_file", path=FILE, start_line=1, end_line=1),
        act("read_file", path=FILE, start_line=3),
        act("read_file", path=FILE, end_line=2),
        act("read_file", path=FILE, start_line=-4, end_line=99),
        act("read_file", path=FILE, start_line=4),
        act("read_file", path=FILE, start_line=3, end_line=2),
        loop_detection={"enabled": False},
    )
    assert message[:5] == ["one\r\ntwo\nthree", "one\r\n", "three", "one\r\ntwo\n", "one\r\ntwo\nthree"]
    assert message[5].endswith(f"{FILE!r} has only 3 lines")
    assert message[6].endswith("end_line 2 is before start_line 3")


async def test_reads_the_start_of_a_long_file_with_a_hint(tmp_path: Path) -> None:
    (work(tmp_path) / "notes.txt").write_text("0123456789" * 20)
    limit = {"read_file_output_max_chars": 50}
    [message] = await use(tmp_path, act("read_file", path=FILE), sandbox=limit)
    hint = "\n[… 150 of 200 characters left out; read the rest with start_line and end_line …]"
    assert message == "0123456789" * 5 + hint


async def test_refuses_to_read_binary_files(tmp_path: Path) -> None:
    (work(tmp_path) / "notes.txt").write_bytes(b"\x89PNG\0\xff")
    (work(tmp_path) / "empty.txt").touch()
    message = await use(tmp_path, act("read_file", path=FILE), act("read_file", path=f"{WORK}/empty.txt"))
    assert message[0].startswith("Error: ") and "is not UTF-8 text (6 bytes)" in message[0]
    assert message[1] == "(empty)"


async def test_writes_and_appends_text_byte_for_byte(tmp_path: Path) -> None:
    text = "\ufeffeins\r\nzwei\n\tdrei\u2028✓ 🦌"
    path = f"{OUTPUTS}/new folder/ü.txt"
    message = await use(
        tmp_path,
        act("write_file", path=path, content=text),
        act("write_file", path=path, content="more\r", append=True),
        act("write_file", path=FILE, content="", append=True),
        act("bash", command=f"cat '{path}' | sha256sum; wc -c < notes.txt"),
    )
    assert message[:3] == ["OK"] * 3 and message[3].endswith("\n0")
    written = work(tmp_path).parent / "outputs/new folder/ü.txt"
    assert written.read_bytes() == f"{text}more\r".encode()


@pytest.mark.parametrize(
    ("before", "old", "new", "replace_all", "after"),
    [
        ("one two", "two", "three", False, "one three"),
        ("a a a", "a", "b", True, "b b b"),
        ("one\ntwo", "two", "", False, "one\n"),
        ("\ufeffone\n", "one", "two", False, "\ufefftwo\n"),
        ("one\r\ntwo\r\nthree", "one\ntwo", "1\n2", False, "1\r\n2\r\nthree"),
        ("one\r\ntwo\r\n", "one\r\n", "1\n", False, "1\ntwo\r\n"),
        ("mixed\r\nends\nhere", "ends\nhere", "end\nthere", False, "mixed\r\nend\nthere"),
        (r"a \1 $1", r"\1", r"\g<0>", False, r"a \g<0> $1"),
    ],
)
async def test_replaces_a_text_and_keeps_the_rest(
    tmp_path: Path, before: str, old: str, new: str, replace_all: bool, after: str
) -> None:
    change = act("str_replace", path=FILE, old_str=old, new_str=new, replace_all=replace_all)
    message = await use(tmp_path, act("write_file", path=FILE, content=before), change)
    assert message == ["OK", "OK"]
    assert (work(tmp_path) / "notes.txt").read_bytes().decode() == after


@pytest.mark.parametrize(
    ("old", "message"),
    [
        ("", "old_str is empty; give the text to replace, or use write_file"),
        ("two ", f"old_str is not in {FILE!r}; read the file and copy the text exactly"),
        ("one", f"old_str is in {FILE!r} 2 times; add lines around it, or set replace_all"),
    ],
)
async def test_refuses_to_replace_a_text_that_does_not_occur_exactly_once(
    tmp_path: Path, old: str, message: str
) -> None:
    change = act("str_replace", path=FILE, old_str=old, new_str="x")
    answered = await use(tmp_path, act("write_file", path=FILE, content="one\none\ntwo"), change)
    assert answered[1] == f"Error: str_replace failed with FileProblem: {message}"
    assert (work(tmp_path) / "notes.txt").read_text() == "one\none\ntwo"


async def test_applies_all_changes_of_a_file_in_one_reply(tmp_path: Path) -> None:
    lines = [f"line {number:02}" for number in range(12)]
    changes = [act("str_replace", path=FILE, old_str=line, new_str=line.upper()) for line in lines]
    # The same file under another spelling is no other file.
    changes[1] = act("str_replace", path=f"{WORK}/./notes.txt", old_str=lines[1], new_str=lines[1].upper())
    message = await use(
        tmp_path,
        act("write_file", path=FILE, content="\n".join(lines)),
        in_parallel(*changes),
        act("str_replace", path=FILE, old_str="LINE 00\n", new_str=""),
    )
    assert [answer for answer in message if answer != "OK"] == []
    assert (work(tmp_path) / "notes.txt").read_text() == "\n".join(lines[1:]).upper()


async def test_runs_calls_of_one_reply_concurrently_in_one_sandbox(tmp_path: Path) -> None:
    # Each waits for what the other writes.
    meet = "echo {0} > {0}; until [ -e {1} ]; do sleep 0.02; done; cat {1}"
    pair = in_parallel(act("bash", command=meet.format("a", "b")), act("bash", command=meet.format("b", "a")))
    async with open_sandbox_harness(tmp_path, ScriptedModel.saying(pair, "Done.")) as harness:
        assert (await ask(harness)).status is RunStatus.SUCCESS
        assert [answer["content"] for answer in await tool_results(harness)] == ["b", "a"]
        state = await state_of(harness)
        assert await harness.core.sandboxes.acquire("t", "local") == state["sandbox"]["sandbox_id"]


async def test_acquires_no_sandbox_without_tools(tmp_path: Path) -> None:
    async with open_sandbox_harness(tmp_path, ScriptedModel.saying("Hello.")) as harness:
        await ask(harness)
        assert (await state_of(harness)).get("sandbox") is None
        assert not (work(tmp_path) / ".home").exists()
