"""Measures the Functions host and its durable engine."""
