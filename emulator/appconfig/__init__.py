"""An App Configuration that is read: the key-values of a file, over the REST calls that the Microsoft SDKs make."""
