"""Local stand-ins for Azure: the Functions host with Durable, Service Bus, and a command to run it all.

They drive the real function app through its real bindings and Microsoft's own SDKs over the real wire.
Development and tests only.
"""
