"""Replies: received from the bus or by HTTP, applied to a job, quarantined where no job takes them."""
