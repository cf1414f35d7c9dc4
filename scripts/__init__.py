"""Programs for a checkout, for example packaging, a smoke test, the demo and the generators."""
