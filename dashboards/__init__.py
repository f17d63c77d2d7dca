"""What ships for watching the gateway: Grafana dashboards, Prometheus rules, Alertmanager routes, runbooks."""
