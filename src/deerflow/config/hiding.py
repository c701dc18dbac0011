"""Keeps secrets of the configuration out of what others read: errors that quote them, and the log."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from deerflow.config.load import Loaded
from deerflow.config.reading.problems import KeyPath
from deerflow.config.reading.secrets import CREDENTIALS_IN_URL, MASK, NO_VARIABLES, is_secret

LEAST = 8
"""What is shorter is found in any text, and keeps nothing secret."""


class Hiding:
    """Replaces every secret there is by stars."""

    def __init__(self, loaded: Loaded) -> None:
        texts = {
            *secrets_in(loaded.config.model_dump(), loaded.document.variables),
            *secrets_in(loaded.extensions.model_dump()),
            *secrets_in(dict(loaded.environment)),
        }
        longest_first = sorted((text for text in texts if len(text) >= LEAST), key=len, reverse=True)
        self._secrets = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def __call__(self, text: str) -> str:
        """`text` without any of them."""
        return self._secrets.sub(MASK, text) if self._secrets else text


def secrets_in(
    value: Any, variables: Mapping[KeyPath, tuple[str, ...]] = NO_VARIABLES, path: KeyPath = ()
) -> Iterator[str]:
    """The texts in `value` that nobody else should read."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from secrets_in(item, variables, (*path, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from secrets_in(item, variables, (*path, index))
    elif isinstance(value, str) and is_secret(path):
        yield value.strip()
    elif isinstance(value, str):
        yield from CREDENTIALS_IN_URL.findall(value)
