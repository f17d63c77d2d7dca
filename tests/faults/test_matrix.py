"""What comes of each cell of the fault matrix; `-s` prints it as a table.

The caller gets what the row says, exactly one call and at most one upstream error are counted, the upstream connection
is closed soon after a caller left, and nothing is left behind: no task, connection, span or call.
"""

from typing import Final

import pytest

from tests.faults.living import run
from tests.faults.matrix import CELLS, Outcome, lines, run_all

CLOSED_WITHIN: Final = 1.0
"""Seconds from the caller's leaving to the end of the upstream connection. The aim is 0.1: the table says."""


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    """Every cell, run side by side in one gateway."""
    came = run(run_all())
    print("", *lines(came), sep="\n")  # noqa: T201 - the table is what `-s` is for
    return came


@pytest.mark.parametrize("name", CELLS)
def test_a_cell(name: str, outcomes: dict[str, Outcome]) -> None:
    """The caller gets what the row says, one call is counted and the one fault, and the upstream is let go."""
    cell, came = CELLS[name], outcomes[name]
    gets, answer = cell.gets, came.answer
    assert came.outcomes == {gets.outcome: 1}
    assert came.faults == ({gets.fault: 1} if gets.fault else {})
    assert answer.status == gets.status
    if cell.row.leave:
        assert came.closed_after is not None
        assert came.closed_after < CLOSED_WITHIN
        return
    assert answer.whole
    body = bytes(answer.body)
    if gets.says == "":
        assert b"hel" in body
        assert b"lo" in body
        assert b'"error"' not in body
    elif gets.says:
        last = body.rstrip(b"\n").rpartition(b"\n\n")[2] if gets.status == 200 else body
        assert gets.says.encode() in last
    assert came.requests <= 1  # nothing is followed, nothing is sent twice
