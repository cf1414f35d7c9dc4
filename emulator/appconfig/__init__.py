"""A read-only App Configuration emulator: serves the key-values of a file over the REST calls of the Microsoft SDKs."""
