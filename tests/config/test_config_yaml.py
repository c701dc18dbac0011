"""Parsing of YAML and JSON documents."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from deerflow.config.load import load
from deerflow.config.loader.document import InvalidConfig
from deerflow.config.loader.files import parse_json, parse_yaml
from deerflow.domain.errors import ConfigError


def read(text: str) -> Any:
    return parse_yaml(text, "config.yaml").data


def test_anchors_and_merge_keys_work_as_in_yaml() -> None:
    text = """
x-base: &base {a: 1, b: {c: 2}}
x-more: &more {b: 3, d: 4}
one: {<<: *base, a: 9}
two: {a: 8, <<: [*base, *more]}
three: [*base]
"""
    assert read(text) == yaml.safe_load(text)


def test_locates_a_key_from_an_anchor_at_its_definition() -> None:
    document = parse_yaml("x: &x\n  a: 1\n  b: 2\ny:\n  b: 3\n  <<: *x\n", "config.yaml")

    assert [document.locate(("y", key)).line for key in ("a", "b")] == [2, 5]


def test_allows_anchors_under_ignored_keys(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "x-ours: &ours {use: 'a:B', api_key: k}\nmodels:\n  - {<<: *ours, name: a, model: m}\n"
    )

    assert load(directory=tmp_path, environment={}).config.models[0].use == "a:B"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2024-05-13", "2024-05-13"),
        ("=", "="),
        ("08", "08"),
        ("1_000", 1000),
        ("yes", True),
        ("~", None),
        ("'yes'", "yes"),
        ("!!str 7", "7"),
        ("|-\n  a\n  b", "a\nb"),
    ],
)
def test_values_are_limited_to_json_types(text: str, value: object) -> None:
    assert read(f"key: {text}\n") == {"key": value}


def test_keys_are_text_as_they_are_written() -> None:
    assert read("on: 1\n7: 2\n1.50: 3\n2024-05-13: 4\n") == {"on": 1, "7": 2, "1.50": 3, "2024-05-13": 4}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("? [a]\n: 1\n", "f:1: a key must be plain text"),
        ("a: 1\n<<: 5\n", "f:2: '<<' must name a mapping, for instance '*anchor'"),
        ("a: !!bool maybe\n", "f:1: a: is not a valid bool"),
        ("a: 0x_\n", "f:1: a: is not a valid int"),
        ("a: !!int x\n", "f:1: a: is not a valid int"),
        ("a: !!set {b}\n", "f:1: a: the tag '!!set' is not known"),
    ],
)
def test_reads_unusual_yaml(text: str, message: str) -> None:
    assert [str(problem) for problem in parse_yaml(text, "f").problems] == [message]


@pytest.mark.parametrize(
    "text", ['{"a":1,"b":[true,null,"x"]}', '{\n\t"a": {\n\t\t"b": "\\ud83e\\udd8c"\n\t}\n}', "", "{}"]
)
def test_json_is_read_as_json(text: str) -> None:
    expected = {"a": {"b": "🦌"}} if "\t" in text else yaml.safe_load(text) or {}

    assert parse_json(text, "f").data == expected


def test_locates_json_keys() -> None:
    document = parse_json('{\n\t"a": {\n\t\t"b": [\n\t\t\t1]}\n}', "f")

    assert [document.locate(path).line for path in (("a",), ("a", "b"), ("a", "b", 0))] == [2, 3, 4]


def test_locates_json_that_is_not_yaml_at_its_file() -> None:
    document = parse_json('{"a": "\x7f"}', "f")

    assert document.data == {"a": "\x7f"}
    assert str(document.locate(("a",))) == "f"


def test_json_may_have_comments_and_trailing_commas() -> None:
    text = """// servers
{
  "a": ["http://x/*y*/", 1, /* one, two */ ], // ,]
  "b": {"c": "\\"//", }, /* last
  */
}"""
    document = parse_json(text, "f")
    assert document.data == {"a": ["http://x/*y*/", 1], "b": {"c": '"//'}}
    assert document.locate(("b", "c")).line == 4
    assert parse_json("/* " * 100_000 + "*/{}", "f").data == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1,\n,}', "f:2: a key in double quotes is expected here"),
        ('{"a": 1 // one\n "b": /* two\n */ 2}', "f:2: a ',' or the closing bracket is missing here"),
        ('{"a": 1 /* no end', "f:1: a ',' or the closing bracket is missing here"),
        ("{a: 1}", "f:1: a key in double quotes is expected here"),
        ('{"a": 1\n "b": 2}', "f:2: a ',' or the closing bracket is missing here"),
        ('{"a" 1}', "f:1: a ':' is missing here"),
        ('{"a": }', "f:1: a value is missing here; text needs double quotes"),
        ('{"a": "b}', "f:1: a double quote is not closed"),
        ("{} {}", "f:1: unexpected text after the closing bracket"),
        ('{"a": "\n"}', "f:1: a line break or tab inside a text"),
        ('{"a": "\\d"}', "f:1: a single backslash"),
        ("[]", "f:1: must be an object"),
        ("[" * 100_000, "f: is nested too deeply"),
    ],
)
def test_reports_json_syntax_errors(text: str, message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        parse_json(text, "f")


KEYS = st.sampled_from(
    [
        "models",
        "server",
        "port",
        "host",
        "runs",
        "title",
        "enabled",
        "name",
        "use",
        "model",
        "database",
        "url",
        "<<",
        "x-",
    ]
) | st.text(max_size=8)
PLAIN = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.dates() | st.binary(max_size=3)
)
VALUES = st.recursive(
    PLAIN | st.sampled_from(["$NAME", "${NAME:-7}", "${", "$$", "a:B"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.integers(), inner, max_size=5),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(data=VALUES)
@pytest.mark.slow
def test_reads_any_data_or_rejects_it_with_a_reason(tmp_path_factory: pytest.TempPathFactory, data: object) -> None:
    directory = tmp_path_factory.mktemp("any")
    (directory / "config.yaml").write_text(yaml.safe_dump(data, allow_unicode=True), encoding="utf-8")
    try:
        load(directory=directory, environment={"NAME": "9"})
    except ConfigError as error:
        assert str(error).startswith("config.yaml")


@settings(max_examples=200, deadline=None, derandomize=True)
@given(data=st.dictionaries(KEYS, VALUES, max_size=5))
@pytest.mark.slow
def test_reads_any_dict_or_rejects_it_with_a_reason(data: dict[str, object]) -> None:
    try:
        load(overrides=data, directory=Path("/nowhere"), environment={})
    except ConfigError as error:
        assert str(error).startswith("config argument: ")


@settings(max_examples=500, deadline=None, derandomize=True)
@given(text=st.text(alphabet="ab:-[]{}&*!|>'\"#%@`?,\n\t $<0x\\", max_size=60))
def test_reads_any_text_or_rejects_it_with_a_reason(text: str) -> None:
    for parse in (parse_yaml, parse_json):
        try:
            parse(text, "config.yaml")
        except ConfigError as error:
            assert str(error).startswith("config.yaml")
