"""The durable orchestrations: they only yield, do no I/O, and take the time from their context."""
