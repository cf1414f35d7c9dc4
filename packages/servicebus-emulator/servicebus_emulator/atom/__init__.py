"""Entities and rules as the ATOM XML of the management API, without HTTP."""
