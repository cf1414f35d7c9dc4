"""Quotas: limits on the start of jobs (R48)."""
