"""The deployed package: its files, packages and durable backend; built and started as Azure does."""
