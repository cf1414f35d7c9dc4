"""A read-only App Configuration emulator, which serves the key-values of a file over the REST calls of the Microsoft
SDKs.
"""
