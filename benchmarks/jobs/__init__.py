"""Measures the cost and the duration of a job, with the whole app on the local stack."""
