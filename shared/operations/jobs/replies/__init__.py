"""Replies: received from the bus or over HTTP, then applied to a job, or quarantined if no job accepts them."""
