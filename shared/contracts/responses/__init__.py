"""What the HTTP API answers, a model a noun: the source of its OpenAPI document and of the clients' models.

The views in `shared.views.job` and beside the operations make these bodies; `tests/api/test_answers.py` holds both
together. Every field stands in every answer unless it has a default.
"""
