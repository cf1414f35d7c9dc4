"""The deployed package: its files, packages and durable backend. The package is built and started as Azure does."""
