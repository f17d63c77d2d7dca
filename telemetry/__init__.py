"""Records what the gateway says happened: counters, spans and log lines. A guest who listens."""
