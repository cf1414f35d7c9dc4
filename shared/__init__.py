"""The function app below its triggers: contracts, core, ports, adapters, operations."""
