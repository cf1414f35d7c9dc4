"""The SDK for platform services of LUCIUS, which receives directives, runs the work of one step and sends replies.

A team writes one class with the methods of `lucius_service.step.Step`. The SDK handles queueing, heartbeats,
duplicates, shutdown and health. The SDK depends only on the messages of LUCIUS (docs/asyncapi.json), not on its code.
"""
