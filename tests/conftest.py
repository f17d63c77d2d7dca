"""What all tests share: how they are spread over processes."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Keep tests that share costly things (`xdist_group`) in one process, unless another spread was asked for."""
    if getattr(config.option, "dist", "no") == "load":
        config.option.dist = "loadgroup"
