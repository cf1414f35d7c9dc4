"""A local OpenTelemetry collector, which receives OTLP/HTTP, keeps the newest traces in memory and shows them."""
