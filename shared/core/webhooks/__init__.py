"""Webhooks, their deliveries, formats and log."""
