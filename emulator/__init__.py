"""Local emulators of Azure services, and the command `up`, which runs the app on them: the local stack.

In the stack, the real function app runs with its real bindings, and Microsoft's own SDKs use the real wire protocols.
The emulators are only for development and tests.
"""
