"""The page of a whole process: all that is counted is on it, in the library's own words, whoever counts it."""

import re

import pytest
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain_text

from telemetry.observer import Telemetry
from tests.telemetry.plays import ordinary, play

OPEN = "application/openmetrics-text; version=1.0.0"
FORMATS = [
    pytest.param("text/plain", id="as text"),
    pytest.param(OPEN, id="as OpenMetrics"),
    pytest.param("application/openmetrics-text;version=1.0.0;escaping=dots", id="with names escaped"),
]
ITSELF = re.compile(r"process_+(cpu|virtual|resident|open)")
"""What moves between two looks."""


def lines(page: bytes) -> list[str]:
    """All that is said of other than the process, in some order."""
    return sorted(line for line in page.decode().splitlines() if not ITSELF.match(line))


@pytest.mark.parametrize("accept", FORMATS)
def test_the_page_says_what_the_library_would(traced: Telemetry, accept: str) -> None:
    """Line for line, before the first call and after some, with series that were born meanwhile."""
    encoder, content_type = choose_encoder(accept)
    for calls in range(3):
        page, told = traced.page(accept)
        assert told == content_type
        assert lines(page) == lines(encoder(traced.registry))
        assert ("thinkcap_spans_dropped_total 0.0" in lines(page)) == ("dots" not in accept)
        play(traced, ordinary())
        traced.metrics.level_refusals["up", "m-think", "nightly", f"level {calls}"].inc()
    assert (b"trace_id=" in traced.page(accept)[0]) == (accept != "text/plain")


def test_a_parser_reads_the_page(traced: Telemetry) -> None:
    """Families stand together, exemplars where they may, one marker at the end."""
    play(traced, ordinary())
    text, openly = (traced.page(accept)[0].decode() for accept in ("", OPEN))
    families = list(open_metrics(openly))  # type: ignore[no-untyped-call]
    assert openly.endswith("# EOF\n")
    assert openly.count("# EOF") == 1
    assert len({family.name for family in families}) == len(families)
    written = {f.name.removesuffix("_info"): len(f.samples) for f in plain_text(text)}
    assert {family.name: len(family.samples) for family in families} == written
    assert [sample.exemplar.labels for family in families for sample in family.samples if sample.exemplar]
