"""Variables in a `.env` file."""

import io
from pathlib import Path

from dotenv import dotenv_values
from dotenv.parser import parse_stream

from deerflow.config.files import read_text
from deerflow.config.reading.problems import Place, Problem, WrongConfig


def read_dotenv(path: Path) -> dict[str, str]:
    """The variables that a `.env` file sets."""
    text = read_text(path, path.name)
    unclear = [binding.original.line for binding in parse_stream(io.StringIO(text)) if binding.error]
    if unclear:
        raise WrongConfig(Problem(Place(path.name, line), (), "must be of the form NAME=value") for line in unclear)
    return {name: value for name, value in dotenv_values(stream=io.StringIO(text)).items() if value is not None}
