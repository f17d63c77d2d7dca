"""A refused thinking level from the wire to the spans and counters: what a gateway states, played to the telemetry."""

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gateway.events import CallFinished
from telemetry.observer import Telemetry
from tests.gateway.door import House, request, whole
from tests.telemetry.plays import named, play, said, samples

SETTINGS = """
[upstreams.up]
url = "http://up.test"
dialects = ["chat"]
[models.m-think]
upstream = "up"
levels = ["low", "high"]
[level_fallback]
purposes = ["session-title"]
"""
GOOD = {"id": "c", "choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}]}


def refused(level: str) -> dict[str, object]:
    """An upstream's refusal."""
    return {"error": {"message": f"Thinking level {level} is not supported for this model."}}


def test_refused_retried_preempted_and_refused_again(traced: Telemetry, kept: InMemorySpanExporter) -> None:
    """The first call is re-issued; the second goes out with the target at once, which is refused by now, and walks on."""
    house = House(
        whole(refused("MINIMAL"), 400), whole(GOOD), whole(refused("LOW"), 400), whole(GOOD), settings=SETTINGS
    )
    told: list[object] = []
    for _ in range(2):
        house.facts.facts.clear()
        house.asks(request(model="m-think", reasoning_effort="minimal"), x_thinkcap_purpose="session-title")
        assert isinstance(house.facts.ending, CallFinished)
        started, *facts = house.facts.facts
        play(traced, facts, started)  # type: ignore[arg-type]  # the first fact of a call is its start
        posts = [said(span) for span in kept.get_finished_spans() if span.name == "POST"]
        told.append([(p["http.response.status_code"], p.get("http.request.resend_count")) for p in posts])
        events = named(kept, "chat m-think").events
        told.append([(event.name.removeprefix("thinkcap.level."), dict(event.attributes or {})) for event in events])
        told.append(said(named(kept, "chat m-think"))["gen_ai.request.reasoning.level"])
        kept.clear()
    assert told == [
        [(400, None), (200, 1)],
        [("refused", {"level": "minimal"}), ("retried", {"refused": "minimal", "sent": "low"})],
        "low",
        [(400, None), (200, 1)],
        [
            ("preempted", {"refused": "minimal", "sent": "low"}),
            ("refused", {"level": "low"}),
            ("retried", {"refused": "low", "sent": "high"}),
        ],
        "high",
    ]
    counted = {
        " ".join(
            (name, *sorted(value for label, value in labels if label in {"level", "refused", "sent", "outcome"}))
        ): value
        for (name, labels), value in samples(traced.metrics.registry).items()
        if "_level_" in name and value
    }
    assert counted == {
        "thinkcap_level_refusals_total minimal": 1,
        "thinkcap_level_refusals_total low": 1,
        "thinkcap_level_retries_total low minimal ok": 1,
        "thinkcap_level_retries_total high low ok": 1,
        "thinkcap_level_preempted_total low minimal": 1,
    }
