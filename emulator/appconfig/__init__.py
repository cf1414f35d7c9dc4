"""A read-only App Configuration: the key-values of a file, over the REST calls that the Microsoft SDKs make."""
