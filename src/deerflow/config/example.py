"""The commented `config.yaml` that ships with the package."""

from importlib.resources import files


def example_config() -> bytes:
    """Every setting with its default, commented out."""
    return files("deerflow.config").joinpath("config.example.yaml").read_bytes()
