"""Two gateways in a row, as two processes: one of them re-issues a refused call, and the other knows."""

from collections.abc import Iterator

import httpx
import pytest

from gateway.demo import upstream
from tests.running import LIMIT_SECONDS, Running, running

SETTINGS = """
[upstreams.next]
url = "{url}"
kind = "{kind}"
dialects = ["chat"]
[models.demo-level]
upstream = "next"
levels = ["low", "medium", "high"]
[models.demo-level-stuck]
upstream = "next"
levels = ["low", "medium", "high"]
[level_fallback]
purposes = ["conversation"]
remember_seconds = 0
"""


@pytest.fixture(scope="module")
def row() -> Iterator[tuple[Running, Running]]:
    """The one further out, then the one further in."""
    with (
        upstream.running(pace=0) as url,
        running(SETTINGS.format(url=url, kind="generic")) as inner,
        running(SETTINGS.format(url=inner.url, kind="thinkcap")) as outer,
    ):
        yield outer, inner


def ask(gateway: Running, model: str) -> httpx.Response:
    """An ordinary turn at a level that is refused."""
    body = {"model": model, "messages": [], "reasoning_effort": "minimal"}
    return httpx.post(f"{gateway.url}/v1/chat/completions", json=body, timeout=LIMIT_SECONDS, trust_env=False)


def retries(gateway: Running, model: str) -> tuple[float, float]:
    """How many calls a gateway has had for a model, and how many of them it has re-issued."""
    return (
        gateway.counted("thinkcap_requests_total", model=model),
        gateway.counted("thinkcap_level_retries_total", model=model),
    )


def test_the_one_further_in_retries(row: tuple[Running, Running]) -> None:
    """It is the first to see the refusal: the one further out sees nothing but the answer."""
    outer, inner = row
    assert ask(outer, "demo-level").status_code == 200
    assert retries(inner, "demo-level") == (1, 1)
    assert retries(outer, "demo-level") == (1, 0)


def test_a_re_issue_is_not_re_issued(row: tuple[Running, Running]) -> None:
    """What comes with the marker of the one further out is passed on, and when all is refused so is the first refusal."""
    outer, inner = row
    answer = ask(outer, "demo-level-stuck")
    assert answer.status_code == 400
    assert "MINIMAL" in answer.text
    assert retries(inner, "demo-level-stuck") == (2, 1)
    assert retries(outer, "demo-level-stuck") == (1, 1)
