"""A local OpenTelemetry collector: receives OTLP/HTTP, keeps the newest traces in memory and shows them."""
