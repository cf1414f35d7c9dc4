"""The API and the bus described to programs and people: OpenAPI, AsyncAPI, JSON Schemas, a page."""
