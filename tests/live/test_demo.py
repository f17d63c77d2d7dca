"""`thinkcap demo --live`: the thinking of a real llama.cpp server is ended, and counted."""

import io
import re

import pytest
from rich.console import Console

from gateway.demo.play import Options, demo


@pytest.mark.usefixtures("models")
def test_a_real_server_is_told_to_answer() -> None:
    """Turns that would think to the end of their output cap are ended, and none of them is given up."""
    out = io.StringIO()
    assert demo(Options(seconds=6.0, live=True), Console(file=out, width=100)) == 0
    told = re.search(
        r"of these on the real llama.cpp server, ([\d.]+) tokens past.*\n((?: {10,}.*\n)+)", out.getvalue()
    )
    assert told is not None, out.getvalue()
    rows = re.findall(r"([\d,]+)  (.*)\n", told[2])
    assert [words for _, words in rows] == ["told to answer, and answered"], out.getvalue()
    assert int(rows[0][0]) > 1
    assert float(told[1]) < 40  # of several hundred that it would have thought
