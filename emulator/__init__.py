"""Local emulators of Azure: the Functions host with Durable, Service Bus, and a command that runs them all.

They run the real function app with its real bindings and Microsoft's own SDKs over the real wire protocols. For
development and tests only.
"""
