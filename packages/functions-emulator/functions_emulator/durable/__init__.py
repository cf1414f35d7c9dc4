"""A durable engine by the rules of the Durable Functions extension: histories, timers, events, activities.

`engine` decides, without sockets and without a wall clock. `store` keeps the state in SQLite. `wire` reads and writes
the JSON of azure-functions-durable 1.7. `runner` drives the engine on an asyncio loop, and `http_api` is the HTTP API
of the extension.
"""
