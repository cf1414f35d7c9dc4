"""Rows of logs: canonical JSON, hash chains, and strict JSON for outside input."""
