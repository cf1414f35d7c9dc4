"""The durable orchestrations, which only yield, do no I/O, and take the time from their context."""
