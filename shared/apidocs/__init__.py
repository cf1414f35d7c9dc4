"""Descriptions of the API and of the bus: OpenAPI, AsyncAPI, JSON Schemas, a page."""
