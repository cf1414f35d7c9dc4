"""Implementations of the ports: with Azure's SDKs, over HTTP, from files, and in memory."""
