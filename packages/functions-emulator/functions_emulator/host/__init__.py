"""A local Azure Functions host for Python v2-model apps.

The host reads the binding metadata that the app declares, runs the triggers in this process, and drives orchestrations
by `functions_emulator.durable`. `program` is the process, and `functions_host` connects the parts. `worker` runs the
app's functions on a separate event loop and separate threads.
"""
