"""The SDK for platform services of LUCIUS: it receives directives, runs the work of one step and sends replies.

A team writes one class with the methods of `lucius_service.step.Step`. The kit does the rest: queueing, heartbeats,
duplicates, shutdown and health. It depends on the messages of LUCIUS (docs/asyncapi.json) and on no code of it.
"""
