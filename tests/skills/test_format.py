"""Parsing of SKILL.md."""

import pytest

from deerflow.domain.errors import SkillInvalid
from deerflow.skills.format import parse_skill

HEAD = "---\nname: tidy-up\ndescription: Tidies.\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "SKILL.md: the header is missing or not closed; begin it with a line '---'"),
        ("# Just text\n", "the header is missing or not closed"),
        ("---\nname: a\ndescription: b\n", "the header is missing or not closed"),
        ("---\n- a\n- b\n---\n", "the header must be lines of the form 'key: value'"),
        ("---\n---\n", "the header must be lines of the form 'key: value'"),
        ("---\ndescription: b\n---\n", "'name' is missing"),
        ("---\nname: tidy-up\n---\n", "'description' is missing; say what the skill does and when to use it"),
        ("---\nname: tidy-up\ndescription: '  '\n---\n", "'description' is missing"),
        ("---\nname: Tidy Up\ndescription: b\n---\n", "not 'Tidy Up'"),
        ("---\nname: tidy--up\ndescription: b\n---\n", "single hyphens between them, not 'tidy--up'"),
        ("---\nname: äpfel\ndescription: b\n---\n", "lower-case letters a-z, digits and single hyphens"),
        (f"---\nname: {'a' * 65}\ndescription: b\n---\n", "1 to 64 lower-case letters"),
        ("---\nname: [a]\ndescription: b\n---\n", "'name' must be text"),
        (f"---\nname: a\ndescription: {'b' * 1025}\n---\n", "the description has 1,025 characters; at most 1,024"),
        (
            "---\nname: a\ndescription: use when: it rains\n---\n",
            "SKILL.md:3: unexpected ':'",
        ),
        ("---\nname: a\n\tdescription: b\n---\n", "SKILL.md:3: a tab is used for indentation; use spaces"),
        ('---\nname: a\ndescription: "b\n---\n', "SKILL.md:3: a quote is not closed"),
        ("---\nname: a\nname: b\ndescription: c\n---\n", "SKILL.md:3: duplicate key 'name'"),
        ("---\nname: a\ndescription: &x b\nlicense: *x\n---\n", "YAML aliases"),
        ("---\na: &x [*x]\n---\n", "YAML aliases"),
        ("---\n? [a]\n: b\n---\n", "key must be a string"),
        (HEAD + "allowed-tools: {a: b}\n---\n", "'allowed-tools' must be a list of tool names"),
        (HEAD + "allowed-tools: [[a]]\n---\n", "'allowed-tools' must be a list of tool names"),
        (HEAD + "x: " + "[" * 15_000 + "\n---\n", "the header has too many brackets"),
        (HEAD + "x: " + "? " * 5_000 + "\n---\n", "the header has too many brackets"),
        (HEAD + "x: " + "[" * 100 + "]" * 100 + "\n---\n", "nested too deeply"),
        (HEAD + "x: " + "y" * 20_000 + "\n---\n", "the header has 20,04"),
        (HEAD + "x: \x07\n---\n", "is not allowed in YAML"),
    ],
)
def test_refuses_invalid_skill_files_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(SkillInvalid) as rejected:
        parse_skill(text)
    assert reason in str(rejected.value) and "\n" not in str(rejected.value)


def test_parses_known_fields_and_keeps_unknown_ones() -> None:
    header = parse_skill(
        "\ufeff---\r\nname: tidy-up\r\ndescription: >-\r\n  Räumt auf – 整理.\r\n\r\n  Use it when <x> is untidy.\r\n"
        "license: MIT\r\nallowed-tools:\r\n  - bash\r\n  - read_file\r\n"
        "metadata:\r\n  version: 1.10\r\n  since: 2025-01-02\r\n"
        "homepage: https://example.org\r\ntags: [a, ü]\r\n---\r\n# Wie\r\n\r\n---\r\nrest\r\n"
    )

    assert (header.name, header.license, header.allowed_tools) == ("tidy-up", "MIT", ("bash", "read_file"))
    assert header.description == "Räumt auf – 整理.\nUse it when <x> is untidy."
    assert header.body == "# Wie\r\n\r\n---\r\nrest\r\n"
    assert header.fields["metadata"] == {"version": "1.10", "since": "2025-01-02"}
    assert header.fields["tags"] == ["a", "ü"] and header.fields.keys() >= {"homepage", "tags"}


@pytest.mark.parametrize(
    ("written", "tools"),
    [
        ("", None),
        ("allowed-tools: []\n", ()),
        ("allowed-tools:\n", ()),
        ("allowed-tools: bash\n", ("bash",)),
        ("allowed-tools: Read, Write,Bash(git add:*) Bash(git status:*)\n", ("read_file", "write_file", "bash")),
        ("allowed-tools: [WebFetch, mcp__files__open, bash, bash]\n", ("web_fetch", "mcp__files__open", "bash")),
    ],
)
def test_parses_allowed_tools_and_maps_aliases(written: str, tools: tuple[str, ...]) -> None:
    assert parse_skill(f"{HEAD}{written}---\n").allowed_tools == tools
