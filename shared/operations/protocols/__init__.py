"""The protocols that rule: packaged ones, a store's overrides, the catalog of both."""
