"""Records what the gateway says happened: counters, spans and log lines. A guest who listens.

    provider, shutdown = start_tracing("thinkcap")                   telemetry.export    only with traces = "otlp"
    telemetry = Telemetry(series, tracer_provider=provider)          telemetry.observer  a gateway.events.Recorder
    port, close = serve_metrics(telemetry.page, host, port)          telemetry.export    GET /metrics, own thread

`series` is plain data from the settings (telemetry.labels.Series); `json_log` of telemetry.logs makes the log.
A call: `observer = telemetry.open(CallStarted(...))`, then `observer.note(fact)` until exactly one ending.
"""
