"""The protocols in effect: packaged ones, overrides of a store, and their catalog."""
