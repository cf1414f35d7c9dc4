"""Bodies of HTTP requests and responses, one module per noun: the source of OpenAPI and of the client's models.

A field without a default is in every response.
"""
