"""The durable orchestrations: yields only, no I/O, no clock but the context's."""
