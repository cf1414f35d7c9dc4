"""The protocols in effect: packaged protocols, overrides of a store, and the catalog of both."""
