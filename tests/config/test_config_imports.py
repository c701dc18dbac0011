"""Loading objects by "module:Name"."""

from collections import OrderedDict

import pytest

from deerflow.config.imports import load_class, load_object
from deerflow.domain.errors import ConfigError


def test_loads_an_object_by_module_and_name() -> None:
    assert load_object("math:pi", float) == 3.141592653589793
    assert load_object("collections:OrderedDict") is OrderedDict


def test_loads_a_subclass_of_the_base() -> None:
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
def test_names_the_missing_module_or_object(path: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        load_object(path)


def test_rejects_an_object_of_another_type() -> None:
    with pytest.raises(ConfigError, match="'math:pi' is a float, not an instance of str"):
        load_object("math:pi", str)
    with pytest.raises(ConfigError, match="'math:pi' is a float, not a subclass of dict"):
        load_class("math:pi", dict)
    with pytest.raises(ConfigError, match="'collections:deque' is a class, not a subclass of dict"):
        load_class("collections:deque", dict)
