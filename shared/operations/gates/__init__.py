"""Admission: a tenant's counts, waiting queues and allocations."""
