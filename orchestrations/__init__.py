"""The durable orchestrations. They only yield, do no I/O, and take the time from their context."""
