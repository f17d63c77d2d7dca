"""What all tests share: how they are spread over processes."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Keep the tests of a file in one process, since they share costly things, unless another spread was asked for."""
    if getattr(config.option, "dist", "no") == "load":
        config.option.dist = "loadfile"
