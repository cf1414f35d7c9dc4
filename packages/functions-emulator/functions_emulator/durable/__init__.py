"""A durable engine by the rules of the Durable Functions extension: histories, timers, events, activities.

Without sockets and without a wall clock: `engine` decides, `store` keeps (SQLite), `wire` speaks the JSON of
azure-functions-durable 1.7, `runner` drives it on an asyncio loop.
"""
