"""The kit for platform services of LUCIUS: directives from the bus, one step's work, replies to the bus.

A service is one class like `lucius_service.step.Step`: its payload's validation and `execute()`. Queueing, heartbeats,
duplicates, shutdown and health are the kit's. It knows the messages and nothing else of LUCIUS.
"""
