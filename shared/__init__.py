"""What the function app is made of, below its triggers: contracts, core, ports, adapters, operations."""
