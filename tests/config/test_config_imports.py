"""Names in the configuration become objects."""

from collections import OrderedDict

import pytest

from deerflow.config.imports import load_class, load_object
from deerflow.domain.errors import ConfigError


def test_an_object_is_found_by_module_and_name() -> None:
    assert load_object("math:pi", float) == 3.141592653589793
    assert load_object("collections:OrderedDict") is OrderedDict


def test_a_class_is_found_when_it_derives_from_the_base() -> None:
    assert load_class("collections:OrderedDict", dict) is OrderedDict


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("math", 'must be written as "module:Name"'),
        (":pi", 'must be written as "module:Name"'),
        ("no_such_module:Name", "there is no module 'no_such_module'$"),
        ("langchain_nobody:ChatNobody", "there is no module 'langchain_nobody'; .*pip install langchain-nobody"),
        ("langchain_core.nowhere:Name", "there is no module 'langchain_core.nowhere'"),
        ("collections:OrderedDit", "has no 'OrderedDit'; did you mean 'OrderedDict'"),
        ("math:zzzzz", "module 'math' has no 'zzzzz'$"),
    ],
)
def test_what_is_not_there_is_named(path: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        load_object(path)


def test_what_is_something_else_is_refused() -> None:
    with pytest.raises(ConfigError, match="'math:pi' is a float, not an instance of str"):
        load_object("math:pi", str)
    with pytest.raises(ConfigError, match="'math:pi' is a float, not a subclass of dict"):
        load_class("math:pi", dict)
    with pytest.raises(ConfigError, match="'collections:deque' is a class, not a subclass of dict"):
        load_class("collections:deque", dict)
