"""Implementations of the ports with Azure's SDKs, and in memory."""
