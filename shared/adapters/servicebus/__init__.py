"""Azure Service Bus."""
