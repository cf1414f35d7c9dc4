"""A collector for a laptop: takes OpenTelemetry over OTLP/HTTP, keeps the newest in memory, and shows it."""
