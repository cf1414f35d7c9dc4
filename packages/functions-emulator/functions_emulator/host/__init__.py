"""A local Azure Functions host for Python v2-model apps: `python -m emulator host --app DIR`.

It reads the app's own binding metadata, runs its triggers in this process, and drives its orchestrations with
`functions_emulator.durable`. The app's functions run on an event loop and threads of their own, apart from the host's.
"""
