"""Every case of this folder against a running gateway, one test each. The gateways run beside each other, once."""

import asyncio
from typing import cast

import pytest

from tests.cases.exact import Json
from tests.cases.runner import Options, Verdict, load, run

CASES = load()


@pytest.fixture(scope="session")
def verdicts(request: pytest.FixtureRequest) -> dict[str, Verdict]:
    """The verdicts on all cases that this run has picked, by id."""
    tests = [item for item in request.session.items if isinstance(item, pytest.Function) and item.function is test_case]
    picked = {cast("Json", test.callspec.params["case"])["id"] for test in tests}

    async def reach() -> dict[str, Verdict]:
        cases = [case for case in CASES if case["id"] in picked]
        return {verdict.case["id"]: verdict async for verdict in run(cases, Options())}

    return asyncio.run(reach())


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['id']} {case['title']}")
def test_case(case: Json, verdicts: dict[str, Verdict]) -> None:
    """The gateway answers, calls its upstream, counts and traces as the case says."""
    verdict = verdicts[case["id"]]
    assert not verdict.differences, "\n".join([*verdict.differences, "", case["why"], "", *verdict.transcript])
