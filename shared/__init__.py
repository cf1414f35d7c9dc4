"""The function app without its triggers: contracts, core, ports, adapters, operations."""
