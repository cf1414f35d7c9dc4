"""A local OpenTelemetry collector, which receives OTLP/HTTP, keeps traces and metrics in memory and shows them."""
