"""Webhooks: their changes, and the delivery of events."""
