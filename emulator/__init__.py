"""Local emulators of Azure: the Functions host with Durable, Service Bus, and a command that runs all emulators.

The emulators run the real function app with its real bindings, and Microsoft's own SDKs over the real wire protocols.
The emulators are only for development and tests.
"""
