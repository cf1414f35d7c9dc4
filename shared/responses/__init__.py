"""Bodies of HTTP responses, one model for each noun: the source of the OpenAPI document and of the client's models.

`shared.views` makes them of rows. A field without a default is in every response.
"""
