"""Whether the gateway itself is well, and its upstreams."""

from typing import Final

from dashboards.boards.board import JOB, MODEL, UPSTREAM, WINDOW, Board, quantiles, speed
from dashboards.boards.panels import BAD, GOOD, NOTICE, OUTCOME_COLOURS, PER_MINUTE, Panel, graph, row, stat, table

OURS: Final = "and on (job, instance) thinkcap_build_info"
"""What a process or a scrape has is shown of gateways only, whatever else the job scrapes."""
OVERHEAD: Final = "thinkcap_overhead_seconds"
BLIND: Final = "job_model_upstream:thinkcap_usage_missing_per_finish_reasons:ratio_increase1h"
ERRORS: Final = "job_upstream:thinkcap_upstream_errors_per_requests:ratio_increase15m"
FAULT_COLOURS: Final = {
    "connect": "dark-red", "tls": "purple", "timeout": "orange", "reset": "red", "protocol": "yellow",
    "http_4xx": "#8e8e8e", "http_429": "blue", "http_5xx": "semi-dark-red",
}  # fmt: skip


def of_process(title: str, says: str, unit: str, expr: str) -> Panel:
    """One line per gateway."""
    return graph(title, says, unit, 8).ask(f"{expr} {OURS}", "{{instance}}")


BOARD: Final = Board(
    "gateway",
    "Gateway",
    "Is the gateway itself well, and are its upstreams?",
    [
        stat("Gateways up", "Gateways that Prometheus can scrape.", "none")
        .ask(f"count(up{{{JOB}}} == 1 {OURS}) or vector(0)")
        .now()
        .steps((None, BAD), (1, GOOD)),
        stat("Overhead, 99th percentile", "One call in a hundred waits longer than this for the gateway alone.", "s")
        .ask(f"max(job_dialect:thinkcap_overhead_seconds:p99_rate15m{{{JOB}}})")
        .spark()
        .steps((None, GOOD), (0.01, NOTICE), (0.05, BAD)),
        stat(
            "Upstream errors",
            "Errors per 100 requests in the last 15 minutes, worst upstream; 4xx are the callers'.",
            "percentunit",
        )
        .ask(f"max({ERRORS}{{{UPSTREAM}}})")
        .spark()
        .decimals(1)
        .steps((None, GOOD), (0.02, NOTICE), (0.1, BAD)),
        stat(
            "Turns without usage",
            "Share of the last hour's turns that told no usage, worst model: rule 1 is blind there.",
            "percentunit",
        )
        .ask(f"clamp_max(max({BLIND}{{{MODEL}}}), 1)")
        .spark()
        .decimals(1)
        .steps((None, GOOD), (0.05, NOTICE), (0.1, BAD)),
        stat("Refused keys", "Calls of this time range without a valid gateway key.", "none")
        .ask(f"sum(increase(thinkcap_key_refusals_total{{{JOB}}}[$__range]))")
        .now()
        .decimals(0),
        stat("Lost spans", "Spans of this time range that could not be sent: traces with holes.", "none")
        .ask(f"sum(increase(thinkcap_spans_dropped_total{{{JOB}}}[$__range]))")
        .now()
        .decimals(0)
        .steps((None, GOOD), (1, NOTICE)),
        quantiles(
            graph("Latency", "Whole request to end of answer; long answers take long.", "s", 8),
            "thinkcap_request_seconds",
        ),
        quantiles(
            graph("First token", "Whole request to first token, of streams.", "s", 8), "thinkcap_first_token_seconds"
        ),
        quantiles(graph("Overhead", "What the gateway itself added to a call.", "s", 8), OVERHEAD, where=JOB),
        row("Upstreams"),
        graph("Errors by kind", "Failed attempts per minute.", PER_MINUTE, 8)
        .ask(f"60 * {speed('thinkcap_upstream_errors_total', 'kind', UPSTREAM)} > 0", "{{kind}}", exemplars=True)
        .stacked()
        .colours(FAULT_COLOURS),
        graph(
            "Errors by upstream",
            "Errors per request in 15 minutes, without 4xx; the line is the alert's.",
            "percentunit",
            8,
        )
        .ask(f"{ERRORS}{{{UPSTREAM}}} > 0", "{{upstream}}")
        .limits((0.1, BAD)),
        graph("In flight", "Calls that upstreams are busy with.", "short", 8).ask(
            f"sum by (upstream) (thinkcap_inflight_requests{{{UPSTREAM}}})", "{{upstream}}"
        ),
        graph(
            "Turns without usage",
            "Share of the last hour's turns that told no usage; the line is the alert's.",
            "percentunit",
            8,
        )
        .ask(f"clamp_max({BLIND}{{{MODEL}}}, 1) > 0", "{{model}} on {{upstream}}")
        .limits((0.1, BAD)),
        graph("Malformed events", "Events per minute that are not what their dialect says.", PER_MINUTE, 8).ask(
            f"60 * {speed('thinkcap_malformed_events_total', 'model')} > 0", "{{model}}"
        ),
        graph(
            "Tokens", "Tokens per second as the upstreams counted them; output includes reasoning.", "si:tok/s", 8
        ).ask(speed("thinkcap_tokens_total", "kind"), "{{kind}}"),
        row("Calls and callers"),
        graph("Calls by outcome", "Calls per second by how they ended.", "reqps", 8)
        .ask(speed("thinkcap_requests_total", "outcome") + " > 0", "{{outcome}}", exemplars=True)
        .stacked()
        .colours(OUTCOME_COLOURS),
        graph("Calls by dialect", "Calls per second by the API that callers speak.", "reqps", 8)
        .ask(speed("thinkcap_requests_total", "dialect") + " > 0", "{{dialect}}")
        .stacked(),
        graph("Refused keys", "Calls per minute without a valid gateway key.", PER_MINUTE, 8).ask(
            f"60 * {speed('thinkcap_key_refusals_total', 'reason', JOB)} > 0", "{{reason}}"
        ),
        row("Processes"),
        of_process(
            "CPU",
            "Cores in use; one gateway can use one.",
            "none",
            f"rate(process_cpu_seconds_total{{{JOB}}}[{WINDOW}])",
        ).limits((0.9, BAD)),
        of_process("Memory", "Resident memory.", "bytes", f"process_resident_memory_bytes{{{JOB}}}"),
        of_process(
            "Open files", "Sockets and files in use; the limit is the machine's.", "short", f"process_open_fds{{{JOB}}}"
        ),
        of_process(
            "Scrape time", "How long Prometheus takes to read a gateway.", "s", f"scrape_duration_seconds{{{JOB}}}"
        ),
        of_process(
            "Samples per scrape",
            "Series a gateway exports; Prometheus refuses more than 20,000.",
            "short",
            f"scrape_samples_scraped{{{JOB}}}",
        ).limits((20000, BAD)),
        table("Versions", "What runs where: version, and a hash of the settings in force.", "none", 8)
        .ask(
            f"label_replace(thinkcap_settings_info{{{JOB}}} * on (job, instance) group_left (version) "
            f'thinkcap_build_info{{{JOB}}}, "settings", "$1", "sha256", "(.{{12}}).*")'
        )
        .columns({"instance": "Gateway", "version": "Version", "settings": "Settings"}),
    ],
)
