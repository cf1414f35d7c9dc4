"""The broker: entities, messages, locks and rules. No sockets, no AMQP; time comes from a clock."""
