"""Azure Functions with Durable Functions for development and tests: a host for any Python v2-model app."""
