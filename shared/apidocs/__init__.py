"""Documents about the API and the bus: OpenAPI, AsyncAPI, JSON Schemas, the GraphQL schema, and two HTML pages."""
