"""The broker: entities, messages, locks and rules. The broker has no sockets and no AMQP, and reads the time from a
clock.
"""
