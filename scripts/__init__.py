"""Programs for a checkout: packaging, a smoke test, the demo, the generators."""
