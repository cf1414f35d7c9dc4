"""Adapters for Azure Service Bus."""
