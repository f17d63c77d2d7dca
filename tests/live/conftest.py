"""Tests against a real llama.cpp server; each says why when it is skipped."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.live.llama import LlamaServer, llama_server, missing, thinker

StartLlama = Callable[..., LlamaServer]


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder generated models are written to."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    return tmp_path_factory.mktemp("models")


@pytest.fixture
def start_llama(models: Path) -> Iterator[StartLlama]:
    """Starts servers that end with the test: `start_llama(model, slots=..., ...)`, without a model the thinker."""
    with ExitStack() as running:

        def start(model: Path | None = None, **settings: object) -> LlamaServer:
            return running.enter_context(llama_server(model or thinker(models), **settings))  # type: ignore[arg-type]

        yield start


@pytest.fixture(scope="module")
def llama(models: Path) -> Iterator[LlamaServer]:
    """One server with the thinker for all tests of a module."""
    with llama_server(thinker(models)) as server:
        yield server
