"""The protocols in force: packaged ones, a store's overrides, and the catalog of both."""
