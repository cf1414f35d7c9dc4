"""Quotas: what a job has to pass before it may start (R48)."""
