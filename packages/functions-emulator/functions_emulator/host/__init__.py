"""A local Azure Functions host for Python v2-model apps.

It reads the binding metadata that the app declares, runs its triggers in this process, and drives its orchestrations
by `functions_emulator.durable`. `program` is the process; `functions_host` puts the parts together; `worker` runs the
app's functions on an event loop and threads of their own.
"""
