"""Replies: received from the bus or called back, applied to a job, quarantined where no job takes them."""
