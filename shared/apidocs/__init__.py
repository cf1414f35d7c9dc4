"""Documents about the API and the bus: OpenAPI, AsyncAPI, JSON Schemas, and a page."""
