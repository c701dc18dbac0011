"""Which settings are secrets, and how they are shown."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from deerflow.config.reading.problems import KeyPath

MASK = "********"
NO_VARIABLES: Mapping[KeyPath, tuple[str, ...]] = MappingProxyType({})
SECRET_WORDS = re.compile(
    r"(^|[_-])(api[_-]?keys?|token|secret|password|passwd|authorization|credentials?)$|_key$", re.I
)
CREDENTIALS_IN_URL = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def is_secret(path: KeyPath) -> bool:
    """Whether a key is named like something that must not be shown."""
    names = [key for key in path if isinstance(key, str)]
    # `openAIApiKey` and `X-Api-Key` are the same name to a reader.
    return any(SECRET_WORDS.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)) for name in names)


def masked(value: Any, variables: Mapping[KeyPath, tuple[str, ...]] = NO_VARIABLES, path: KeyPath = ()) -> Any:
    """`value` as it may be shown: without secrets and without anything that came from a variable."""
    if isinstance(value, Mapping):
        return {key: masked(item, variables, (*path, key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [masked(item, variables, (*path, index)) for index, item in enumerate(value)]
    if names := variables.get(path):
        return f"{MASK} (from {', '.join(f'${name}' for name in names)})"
    if value is None:
        return None
    if is_secret(path):
        return MASK
    return CREDENTIALS_IN_URL.sub(MASK, value) if isinstance(value, str) else value
