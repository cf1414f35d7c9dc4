"""Azure Functions and Durable Functions for development and tests: a host for any app of the Python v2 model."""
